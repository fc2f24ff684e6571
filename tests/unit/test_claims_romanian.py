"""What a Romanian reply pretends, sentence by sentence, both ways; with and without diacritics."""

import unicodedata

import pytest

from services.agent.core.claims import asks_to_confirm, claims_done
from shared.locales import load

BOTH = (load("en"), load("ro"))

CLAIMS = [
    "Programarea a fost realizată cu succes.", "Joi la 10:00 este rezervat pentru dumneavoastră.", "Confirm programarea pentru joi la 10.",
    "Da, v-am rezervat ora 10.", "Rezervat! Ne vedem joi.", "Programare efectuată ✅", "Vă confirm că programarea a fost mutată.",
    "Am programat un detartraj joi la 10:00.", "V-am programat joi la 10.", "Te-am programat pentru vineri.", "Am rezervat ora 10.",
    "V-am rezervat un loc.", "Am mutat programarea pe vineri.", "V-am mutat programarea.", "Am reprogramat vizita.", "Am anulat programarea.",
    "Am anulat-o.", "L-am anulat.", "Am adăugat 300 lei pentru cumpărături.", "Am adăugat cheltuiala.", "Am șters cheltuiala 1.", "Am sters-o.",
    "Am actualizat numele dumneavoastră.", "Am schimbat ora.", "Am modificat adresa.", "Am comandat produsul.", "Am plasat comanda.",
    "Am trimis mesajul cumpărătorului.", "V-am trimis confirmarea.", "Am înregistrat cererea.", "V-am înregistrat ca vânzător.", "Am rambursat suma.",
    "Am confirmat programarea.", "Am făcut programarea.", "V-am făcut o programare joi.", "Am efectuat modificarea.", "Am reușit să vă programez joi.",
    "V-am trecut joi la 10.", "V-am notat pentru joi la 10:00.", "Ți-am rezervat locul.", "Ți l-am anulat.", "Am deja programat totul.", "Tocmai am anulat programarea.",
    "Gata, am mutat programarea.", "Gata, v-am programat!", "Gata!", "Gata. Vă așteptăm joi.", "Făcut!", "S-a făcut.", "S-a rezolvat!", "Un coleg a anulat programarea.",
    "Programarea a fost anulată.", "Programarea dvs. a fost mutată pe vineri.", "Programarea dumneavoastră cu dr. Ionescu a fost anulată.",
    "Programarea de joi, 10:00, a fost mutată.", "Comanda a fost plasată.", "Cheltuiala a fost ștearsă.", "A fost mutată pe vineri.", "A fost anulată.",
    "Au fost adăugate 300 lei.", "Programarea este confirmată.", "Programarea e confirmată.", "Este confirmată.", "E rezervată pentru dumneavoastră.",
    "Rezervarea dumneavoastră este acum confirmată.", "Sunteți programat joi la 10.", "Sunteți programată joi la 10.", "Ești programat joi.", "S-a anulat programarea.",
    "S-a mutat pe vineri.", "Totul este rezolvat.", "Totul e gata.", "Programat: detartraj cu dr. Ionescu, joi 3 decembrie, 10:00.", "Programat!", "Programat pentru joi.",
    "Anulat.", "Anulată!", "✅ Confirmat", "✅ Programat: detartraj", "Rezervat joi la 10.", "Mutat pe vineri.", "Adăugat: 300 lei.", "Șters.", "Programare confirmată!",
    "Programarea anulată.", "Programare: confirmată", "Comandă plasată.", "Perfect, am programat joi la 10.", "Perfect! V-am programat.", "Bine, am anulat.",
    "Nicio problemă, am mutat-o.", "Nu vă faceți griji, am anulat programarea.", "Fără probleme, v-am programat joi.", "V-am programat joi, e bine?",
    "Ora 10 nu e liberă, dar v-am programat la 11.", "Nu se poate luni, așa că am rezervat marți.", "**Am programat** joi", "1. Anulat: control", "„Am programat joi.”",
    "Am anulat.\nMai doriți ceva?", "Data programării a fost schimbată.", "Am solicitat returul.",
]  # fmt: skip

NO_CLAIMS = [
    "Ne-am mutat în altă clădire.", "Am actualizat programul de lucru al clinicii.", "Programarea aceea nu mai există: a fost anulată.",
    "Programarea aceea a fost schimbată între timp.", "Nu se poate anula o comandă care a fost trimisă.",
    "Nu pot programa.", "Nu pot anula programări de aici.", "Nu am programat nimic.", "N-am programat nimic.", "Nu v-am programat încă.", "Încă nu am anulat.",
    "Nu am reușit să vă programez.", "Nu am făcut programarea.", "Programarea nu a fost anulată.", "Programarea n-a fost anulată.", "Nu s-a schimbat nimic.", "Nimic nu a fost anulat.",
    "Nicio programare nu a fost mutată.", "Nu este confirmată încă.", "Programarea nu e confirmată.", "Nu sunteți programat.", "Nu cred că am programat asta.",
    "Voi programa joi la 10.", "O să vă programez.", "Am să vă programez joi.", "Vă programez imediat.", "Vom anula programarea.", "Urmează să anulăm.", "Aș fi programat joi.", "Va fi anulată.",
    "Programarea va fi confirmată prin SMS.", "Programarea poate fi mutată.", "Trebuie anulată cu o zi înainte.", "Ar fi fost anulată.", "Se programează la telefon.", "Se anulează ușor.",
    "Pot programa un detartraj joi.", "Putem muta programarea.", "Ca să fie programat, spuneți-mi ziua.", "Pentru a fi rezervat, locul are nevoie de un nume.",
    "Dacă am programat greșit, spuneți-mi.", "Dacă a fost anulată, vă anunțăm.", "Odată ce confirmați, programarea este confirmată.", "După ce a fost confirmată, primiți un SMS.",
    "Când este confirmată, primiți un mesaj.", "Până este confirmată, nu se schimbă nimic.", "Programările dumneavoastră: detartraj, joi la 10:00.", "Aveți o programare joi la 10:00.",
    "Aveți programat un detartraj joi.", "Nu aveți programări viitoare.", "Aveți două rezervări.", "Totalul este 300 lei.", "Comenzile dumneavoastră: 17 și 18.",
    "Ați programat deja?", "Am programat bine?", "Este confirmată programarea?", "A fost anulată?", "S-a anulat?", "Programarea a fost mutată?", "Programat?", "Gata?", "Sunteți programat?",
    "Ora 10 este rezervată.", "Ora aceea este ocupată.", "Medicul este programat atunci.", "Ora a fost rezervată de alt pacient.", "Locul a fost rezervat de altcineva.", "Joi este rezervat.",
    "Prețurile au fost actualizate.", "Clinica s-a mutat.", "S-a schimbat programul.", "Programul a fost modificat.", "Adresa noastră s-a schimbat.", "Comanda a fost anulată de vânzător.",
    "Programarea care a fost anulată era la 10.", "Ați scris „am anulat programarea”.", "Ați spus că programarea a fost anulată.", "Văd că programarea a fost anulată.",
    "O programare este confirmată prin SMS.", "Programările sunt confirmate prin SMS.", "Orice comandă plasată azi pleacă mâine.", "Fiecare programare anulată târziu costă 50 lei.",
    "Programați o vizită la telefon.", "Ce doriți să programați?", "Care programare să fie mutată?", "Am găsit trei ore libere.", "Am verificat calendarul: joi la 10:00 e liber.",
    "Am întrebat un coleg.", "Am înțeles.", "Gata, am înțeles.", "Am o întrebare.", "Am notat.", "Suntem deschiși luni.", "Un detartraj durează 45 de minute.", "Bună ziua! Cu ce vă pot ajuta?",
    "Este vorba de o programare confirmată?", "Programarea se face în orele de program.", "Cabinetul este mutat în altă clădire.", "Spuneți-mi ce zi vi se potrivește.", "Succes!", "Mulțumesc!",
    "Mi s-a părut o idee bună.", "Vă trimit adresa.",
]  # fmt: skip

ASKS = [
    "Doriți să continuați?", "Sigur vreți să anulați?", "Aștept un răspuns cu DA.", "Îmi puteți confirma programarea?",
    "Răspundeți DA.", "Răspundeți DA pentru a confirma.", "Vă rog să răspundeți DA.", "Răspunde cu DA.", "Răspundeți cu „DA”.", "Scrieți DA sau NU.", "Scrie DA.", "Spuneți da și e gata.", "Trimiteți DA.",
    "Răspundeți doar DA.", "Confirmați?", "Confirmi?", "Confirmați, vă rog.", "Vă rog să confirmați.", "Vă rog confirmați programarea.", "Te rog să confirmi.", "Îmi confirmați?", "Puteți confirma?", "Poți confirma?",
    "Puteți să confirmați?", "Trebuie doar să confirmați.", "Dacă confirmați, programez.", "Odată ce confirmați, o fac.", "Aștept confirmarea dumneavoastră.", "Așteptăm confirmarea.", "Am nevoie de confirmarea dumneavoastră.",
    "Rog confirmare.", "Pentru a confirma, răspundeți aici.", "Apăsați Confirm.", "Da sau nu?", "da/nu?", "Să vă programez?", "Să programez joi la 10?", "Să anulez programarea?", "Să o anulez?", "Să îl mut?", "Să rezerv?",
    "Doriți să anulez?", "Doriți să vă programez joi?", "Vreți să mut programarea?", "Vrei să rezerv?", "Pot să vă programez joi la 10?", "Pot programa joi la 10?", "Pot anula programarea?", "Putem muta pe vineri?",
    "Programez?", "Anulez?", "O anulez?", "Fac programarea?", "Să fac programarea?", "Facem programarea?", "Rezervăm joi la 10?", "Mergem mai departe?", "Continuăm?", "Să continui?", "Sunteți sigur?", "Sunteți sigură că doriți să anulați?",
    "Ești sigur?", "E corect?", "Este corect?", "Joi la 10:00, este în regulă?", "E bine așa?", "Sunteți de acord?", "De acord?", "Să adaug 300 lei?", "Să șterg cheltuiala 1?", "Să plasez comanda?", "Să vă înregistrez?",
    "Să actualizez numele?", "Să schimb adresa?", "Spuneți-mi dacă să vă programez.", "10:00 e liber. Să vă programez?", "**Răspundeți DA**",
]  # fmt: skip

ASKS_NOTHING = [
    "Nu trebuie să confirmați.", "Nu e nevoie să confirmați.", "Nu e nevoie să răspundeți DA.", "Nu pot confirma asta.", "Sistemul vă va cere să confirmați.", "Veți fi rugat să confirmați.", "Vi se va cere să confirmați.",
    "O să vă ceară să confirmați.", "Programarea este confirmată.", "Am confirmat-o.", "Confirmăm prin SMS.", "Un coleg va confirma prețul.", "Confirmarea se trimite prin SMS.", "Confirmați ce zi doriți?", "Vă rog să confirmați numele.",
    "Puteți confirma numărul de telefon?", "Confirmați care medic.", "La ce oră să vă programez?", "Pe ce zi să mut programarea?", "Când să vă programez?", "Pe numele cui să fac programarea?", "Cu cine să vă programez?",
    "Care programare să o anulez?", "Cu ce vă pot ajuta?", "Ce zi vi se potrivește?", "Care vi se potrivește?", "Doriți o programare?", "Doriți dimineața sau după-amiaza?", "Ce doriți să programați?", "Vă convine ora 10?",
    "Să vă arăt orele libere?", "Să întreb un coleg?", "Să caut altă zi?", "Doriți să verific altă zi?", "Preferați dr. Ionescu?", "Pot programa un detartraj joi.", "Puteți anula până miercuri.", "Da, suntem deschiși.", "Da, facem detartraj.",
    "Da. Suntem deschiși până la 18.", "Da, se poate.", "Spuneți-mi ce zi doriți.", "Scrieți ziua dorită.", "Scrieți „operator” pentru a vorbi cu un om.", "Ați programat deja?", "Ai anulat tu?", "De ce ați anulat?",
    "Mesajul spunea „Răspundeți DA pentru a confirma”.", "Ați scris „confirmați?”.", "Aveți o programare joi.", "Este urgent?", "Aveți dureri?", "E luni bine?", "Unde locuiți?", "Cum vă numiți?", "Bună ziua!", "Mulțumesc!", "?", "",
    "Vă trimit adresa?", "Răspundem în aceeași zi.", "Colegii vă răspund aici.", "Spuneți dacă vă doare.", "Anulați cu o zi înainte.", "Mutăm sediul în mai.",
]  # fmt: skip


def bare(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


def with_cedilla(text: str) -> str:
    return text.translate(str.maketrans("șțȘȚ", "şţŞŢ"))


SPELLINGS = pytest.mark.parametrize("spelled", [str, bare, with_cedilla], ids=["", "no marks", "cedilla"])


@SPELLINGS
@pytest.mark.parametrize("text", CLAIMS)
def test_it_claims_that_something_is_done(text: str, spelled) -> None:
    assert claims_done(spelled(text), BOTH)


@SPELLINGS
@pytest.mark.parametrize("text", NO_CLAIMS)
def test_it_claims_nothing(text: str, spelled) -> None:
    assert not claims_done(spelled(text), BOTH)


@SPELLINGS
@pytest.mark.parametrize("text", ASKS)
def test_it_asks_for_a_yes(text: str, spelled) -> None:
    assert asks_to_confirm(spelled(text), BOTH)


@SPELLINGS
@pytest.mark.parametrize("text", ASKS_NOTHING)
def test_it_asks_for_no_yes(text: str, spelled) -> None:
    assert not asks_to_confirm(spelled(text), BOTH)


VERBS = {  # to do, I do, done, done (feminine)
    "programa": ("programez", "programat", "programată"), "rezerva": ("rezerv", "rezervat", "rezervată"),
    "muta": ("mut", "mutat", "mutată"), "reprograma": ("reprogramez", "reprogramat", "reprogramată"),
    "anula": ("anulez", "anulat", "anulată"), "adăuga": ("adaug", "adăugat", "adăugată"), "șterge": ("șterg", "șters", "ștearsă"),
    "actualiza": ("actualizez", "actualizat", "actualizată"), "schimba": ("schimb", "schimbat", "schimbată"),
    "comanda": ("comand", "comandat", "comandată"), "înregistra": ("înregistrez", "înregistrat", "înregistrată"),
}  # fmt: skip


@pytest.mark.parametrize(("base", "forms"), VERBS.items())
def test_every_generic_verb_is_known_in_every_form(base: str, forms: tuple[str, str, str]) -> None:
    now, done, her = forms
    for claim in (
        f"Am {done}.",
        f"V-am {done} acum.",
        f"Comanda a fost {her}.",
        f"Este {her}.",
        f"✅ {done.capitalize()}",
        f"{her.capitalize()}: una",
    ):
        assert claims_done(claim, BOTH), claim
    for none in (
        f"Nu am {done}.",
        f"Dacă am {done}, spuneți.",
        f"A fost {her}?",
        f"Va fi {her}.",
        f"Pot {base}.",
        f"Voi {base}.",
        f"Nu pot {base}.",
    ):
        assert not claims_done(none, BOTH), none
    assert asks_to_confirm(f"Să {now}?", BOTH)
    assert asks_to_confirm(f"Pot {base} acum?", BOTH)
    assert not asks_to_confirm(f"Pot {base} luni.", BOTH)
