"""CLDR codes in the corpus: few enough to occur often, many enough for a vocabulary."""


def codes(text: str) -> tuple[str, ...]:
    """Split a text into codes."""
    return tuple(text.split())


CURRENCIES = codes("USD EUR GBP JPY CHF CAD AUD CNY INR BRL MXN KRW SEK NOK DKK PLN CZK HUF TRY ILS ZAR EGP THB NZD")

TERRITORIES = codes(
    "FR DE GB US IT ES PT NL BE CH AT SE NO DK FI PL CZ HU GR TR RU UA JP CN IN KR VN TH AU NZ CA MX BR AR CL PE"
    " EG MA DZ TN SN KE ZA IL LB IR"
)

LANGUAGES = codes("en fr de es it pt nl sv da fi pl cs hu el tr ru uk ar he fa hi bn ta ja zh ko vi th sw la")

UNITS = codes(
    "length-kilometer length-meter length-centimeter length-millimeter length-mile length-foot length-inch"
    " length-light-year mass-kilogram mass-gram mass-milligram mass-tonne mass-pound mass-ounce"
    " volume-liter volume-milliliter volume-cubic-meter volume-gallon volume-tablespoon"
    " area-hectare area-square-kilometer area-square-meter"
    " speed-kilometer-per-hour speed-meter-per-second speed-knot"
    " duration-century duration-year duration-month duration-week duration-day duration-hour duration-minute"
    " duration-second duration-millisecond"
    " digital-byte digital-kilobyte digital-megabyte digital-gigabyte"
    " energy-kilocalorie energy-joule energy-kilowatt-hour power-watt power-kilowatt power-horsepower"
    " electric-volt electric-ampere frequency-hertz frequency-megahertz pressure-hectopascal pressure-bar"
    " angle-degree temperature-celsius temperature-fahrenheit graphics-pixel graphics-megapixel"
)

RATE_NUMERATORS = codes(
    "length-kilometer length-meter mass-kilogram mass-gram volume-liter volume-milliliter digital-gigabyte"
    " digital-megabyte energy-kilowatt-hour"
)
RATE_DENOMINATORS = codes(
    "duration-second duration-minute duration-hour duration-day duration-week duration-month duration-year"
)

# Time zones with hours from Greenwich and whether they have daylight saving time. The names come from the CLDR; moments
# are in local time, so that no time zone database is needed.
ZONES = (
    ("Europe/London", 0, True),
    ("Europe/Paris", 1, True),
    ("Europe/Athens", 2, True),
    ("Europe/Moscow", 3, False),
    ("Asia/Kolkata", 5, False),
    ("Asia/Shanghai", 8, False),
    ("Asia/Tokyo", 9, False),
    ("Australia/Sydney", 10, True),
    ("America/Sao_Paulo", -3, False),
    ("America/New_York", -5, True),
    ("America/Chicago", -6, True),
    ("America/Los_Angeles", -8, True),
)
