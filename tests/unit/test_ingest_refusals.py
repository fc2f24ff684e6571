"""An account is unheard when it has had nothing but refused webhooks: four in a row, none of them long ago."""

from services.ingest.core.refusals import IN_A_ROW, TELL_EVERY_S, WITHIN_S, Refusals
from shared.ids import AccountId

CLINIC, SHOP = AccountId(1), AccountId(2)


def refused(refusals: Refusals, account: AccountId, times: int, *, every_s: float, from_s: float = 0) -> None:
    for n in range(times):
        refusals.refused(account, "generic", now_s=from_s + n * every_s)


def test_an_account_is_unheard_after_some_in_a_row_while_others_are_heard() -> None:
    refusals = Refusals()
    for n in range(IN_A_ROW):
        assert refusals.accounts("generic", now_s=n) == 0
        refusals.refused(CLINIC, "generic", now_s=n)
        refusals.took(SHOP)
    assert refusals.accounts("generic", now_s=IN_A_ROW) == 1
    assert refusals.accounts("whatsapp", now_s=IN_A_ROW) == 0


def test_one_that_is_taken_ends_it_and_a_stranger_s_between_good_ones_are_none() -> None:
    refusals = Refusals()
    refused(refusals, CLINIC, IN_A_ROW, every_s=1)
    refusals.took(CLINIC)
    assert refusals.accounts("generic", now_s=10) == 0
    for n in range(20):
        refusals.refused(CLINIC, "generic", now_s=20 + n)
        refusals.took(CLINIC)
    assert refusals.accounts("generic", now_s=40) == 0


def test_few_an_hour_are_enough_and_after_an_hour_without_any_nobody_knows() -> None:
    refusals = Refusals()
    refused(refusals, CLINIC, IN_A_ROW, every_s=WITHIN_S)
    last_s = WITHIN_S * (IN_A_ROW - 1)
    assert refusals.accounts("generic", now_s=last_s + WITHIN_S) == 1
    assert refusals.accounts("generic", now_s=last_s + WITHIN_S + 1) == 0
    refused(refusals, SHOP, IN_A_ROW * 2, every_s=WITHIN_S + 1, from_s=last_s)
    assert refusals.accounts("generic", now_s=last_s + (WITHIN_S + 1) * (IN_A_ROW * 2 - 1)) == 0


def test_it_is_time_to_say_so_at_the_first_when_nobody_hears_it_and_now_and_then() -> None:
    refusals = Refusals()
    told = [refusals.refused(CLINIC, "generic", now_s=TELL_EVERY_S / 4 * n) for n in range(9)]
    assert told == [1, None, None, 4, None, None, None, 8, None]
    refusals.took(CLINIC)
    assert refusals.refused(CLINIC, "generic", now_s=TELL_EVERY_S * 2 + 1) is None  # who tries says no more
    assert refusals.refused(SHOP, "generic", now_s=TELL_EVERY_S * 2 + 1) == 1
