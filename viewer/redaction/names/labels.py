"""Labels of secrets in other languages than English, with the secrecy that each implies.

Labels are in lower case, with a space between words. In names, hyphens or underscores may be there instead.
"""

from typing import Literal

_PASSWORDS = (
    # German, Dutch and the languages of the north
    *("passwort", "kennwort", "zugangsdaten", "wachtwoord", "adgangskode", "lösenord"),
    *("losenord", "passord", "salasana", "lykilorð", "parool"),
    # French, Spanish, Portuguese, Italian, Catalan and Romanian
    *("mot de passe", "motdepasse", "mots de passe", "contraseña", "contrasena", "contrasenya"),
    *("clave de acceso", "clave secreta", "clau d'accés", "senha", "palavra-passe", "palavra passe"),
    *("parola d'ordine", "parolă", "codigo de acesso", "código de acceso"),
    # Polish, Czech, Hungarian, Turkish, Vietnamese and Indonesian
    *("hasło", "haslo", "heslo", "jelszó", "lozinka", "geslo", "şifre", "sifre"),
    *("mật khẩu", "kata sandi"),
    # Russian, Ukrainian, Bulgarian and Greek
    *("пароль", "парола"),
    *("κωδικός", "συνθηματικό"),
    # Chinese, Japanese and Korean
    *("密码", "密碼", "口令", "暗証番号", "合言葉"),
    *("パスワード", "パスフレーズ", "비밀번호"),
    *("암호", "패스워드"),
    # Arabic, Hebrew, Hindi and Thai
    *("كلمة المرور", "סיסמה"),
    *("पासवर्ड", "รหัสผ่าน"),
)
_KEYS = (
    # German, Dutch and the languages of the north
    *("schlüssel", "schluessel", "geheimnis", "zugangstoken", "sleutel", "nyckel", "nøgle", "avain"),
    # French, Spanish, Portuguese, Italian
    *("clé", "clé api", "clé secrète", "clef", "jeton", "jeton d'accès"),
    *("secrète", "clave", "clave api", "llave", "secreto", "ficha de acceso", "chave", "chave de api"),
    *("segredo", "parola", "chiave", "chiave api", "segreto", "gettone"),
    # Polish, Czech, Turkish, Russian and Ukrainian
    *("klucz", "klíč", "anahtar\N{LATIN SMALL LETTER DOTLESS I}", "ключ", "токен"),
    *("секрет",),
    # Chinese, Japanese and Korean
    *("密钥", "密鑰", "秘钥", "私钥", "金鑰", "令牌", "凭证"),
    *("凭据", "憑證", "秘密鍵", "秘密の鍵", "トークン"),
    *("アクセスキー", "シークレット", "apiキー", "api キー"),
    *("토큰", "비밀키", "비밀 키", "api 키", "api키", "인증키", "시크릿"),
)
FOREIGN_LABELS: dict[str, Literal["hard", "made"]] = {
    **dict.fromkeys(_KEYS, "made"),
    **dict.fromkeys(_PASSWORDS, "hard"),
}
