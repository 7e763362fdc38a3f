// Texts with a number, in the plural form of the page's language.

/** Returns the text of an element's data-counts for this number. */
export function counted(element, count) {
  const language = document.documentElement.lang;
  const rules = new Intl.PluralRules(language);
  const texts = JSON.parse(element.dataset.counts);
  const sample = Object.keys(texts).find((number) => rules.select(Number(number)) === rules.select(count));
  // Separators as in checkpoint_site/languages, which Django uses.
  const number = new Intl.NumberFormat(`${language}-u-nu-latn`, { useGrouping: "always" }).format(count);
  return texts[sample ?? "100"].replace("%(count)s", number);
}
