"""What an English reply pretends, sentence by sentence, both ways."""

import pytest

from services.agent.core.claims import asks_to_confirm, claims_done
from shared.locales import load

BOTH = (load("en"), load("ro"))

CLAIMS = [
    "Your cleaning with Dr. Popescu is set for Monday at 9:00.", "I've taken the liberty of booking Thursday for you.",
    "Your cleaning on Thursday, December 3rd at 10:00 AM has been successfully booked!", "300 lei for groceries added.",
    "That slot is booked for you.", "Both appointments have been cancelled.", "🎉 You're booked!", "Expense deleted ✅",
    "I've booked a cleaning for you on Thursday at 10:00.", "I have booked it.", "I booked you in for Thursday.",
    "We've booked your check-up.", "I have cancelled your appointment.", "I've canceled it.",
    "I’ve just cancelled your appointment.", "I have now moved your appointment to Friday.",
    "I've successfully rescheduled your visit.", "I've gone ahead and booked Thursday.",
    "I went ahead and cancelled it for you.", "I added 300 for groceries.", "I've added it to your cart.",
    "I have deleted expense 1.", "I've removed that entry.", "I've ordered it for you.", "I placed your order.",
    "I've placed the order.", "I've updated your name.", "I have changed your phone number.",
    "I've registered you as a seller.", "I've sent the message to the buyer.", "I've refunded the payment.",
    "I have issued a refund.", "We have scheduled you with Dr. Ionescu.", "I've reserved the 10:00 slot for you.",
    "I made the booking.", "I've made the change you asked for.", "I managed to book Thursday at 10.",
    "I was able to move your appointment.", "I've checked the calendar and booked you for Thursday.",
    "A colleague has cancelled it.", "The system has registered your order.", "We got you booked for Thursday.",
    "I've put you down for Thursday at 10:00.", "You've successfully booked a cleaning.",
    "Your appointment is confirmed.", "Your appointment has been moved to Friday.",
    "Your appointment with Dr. Ionescu has been moved.", "Your appointment was cancelled.",
    "Your appointment with Dr. Ionescu, Thursday at 10:00, is confirmed.", "The appointment has been cancelled.",
    "Your cleaning is now booked for Thursday 3 December, 10:00.", "Your order has been placed.",
    "Your expense has been added.", "Expense 1 has been deleted.", "Thursday at 10:00 has been reserved for you.",
    "You are booked for Thursday.", "You're all set, booked for Thursday.", "You're all set!", "All set.",
    "It's booked.", "It’s done!", "That's booked for you.", "Everything has been updated.", "You've been registered.",
    "Done! I moved your appointment.", "Done!", "Done.", "Done, see you Thursday.", "All done!", "It's all taken care of.",
    "Booked: cleaning with Dr. Ionescu, Thursday 3 December, 10:00.", "Booked!", "Booked for Thursday at 10.",
    "✅ Confirmed", "✅ Booked: cleaning", "☑️ Appointment moved to Friday.", "Confirmed.", "Cancelled.",
    "**Booked:** cleaning on Thursday", "1. Booked: cleaning", "- Cancelled: check-up", "Great, booked for Thursday.",
    "Perfect! Moved your appointment to Friday.", "Booking confirmed!", "Appointment cancelled.", "Order placed.",
    "Your appointment: confirmed.", "Status: booked", "New appointment booked for Thursday.", "Added 300 for groceries.",
    "No problem, I've moved it.", "No worries I've cancelled it.", "Don't worry, your appointment has been moved.",
    "I've booked it for Thursday, is that OK?", "Your appointment is confirmed, anything else?",
    "I can't do Monday, so I've booked Tuesday.", "10:00 isn't free but I've booked 11:00.",
    "If you like surprises, I've booked Thursday.", "“I've booked it.”", "Your appointment is now “confirmed”.",
    "ＩＶＥ booked it", "I\u200b've bo\u200boked it", "I've *booked* it", "i've booked it", "IVE BOOKED IT",
    "I've added it.\nAnything else?", "Hello!\n\nI've booked it", "I have already booked it", "I've swapped the two.",
    "I've forwarded your request.", "The reservation went through.", "Your refund has been requested.",
]  # fmt: skip

NO_CLAIMS = [
    "We moved to a new building last year.", "We've updated our opening hours.", "We added a new dentist to our team.",
    "That appointment no longer exists: it has been cancelled.", "That appointment was changed in the meantime.",
    "It is done by: Dr. Marin.", "You can only move an appointment that has not been cancelled.",
    "I can't book.", "I can't book that for you.", "I cannot cancel appointments.", "I haven't booked anything.",
    "I have not booked anything yet.", "I have booked nothing.", "I've added no expense.", "I didn't cancel it.",
    "Nothing has been booked.", "Nothing was changed.", "No appointment has been cancelled.",
    "Your appointment was not cancelled.", "Your appointment hasn't been moved.", "It is not booked yet.",
    "I don't think I booked that.", "I wasn't able to book it.", "I was unable to cancel it.",
    "I'll book it.", "I will book a cleaning for you.", "I'm going to move it.", "I would have booked it.",
    "I can book it for you.", "I could move it to Friday.", "Let me book that.", "We will confirm it by SMS.",
    "Your appointment will be confirmed.", "Your appointment can be moved.", "It should have been cancelled by then.",
    "To have it booked, tell me the day.", "To be booked, a cleaning needs a day.", "Once it is booked, you get a message.",
    "Once you confirm, your appointment is booked.", "As soon as you reply, it's booked.", "If I booked that, you would have two.",
    "If it has been cancelled, tell us.", "When it's confirmed, we send a reminder.", "Before I've booked it, I need a day.",
    "After it's booked, you'll get a reminder.", "Unless it has been cancelled, it stands.", "Once you confirm, you're all set.",
    "I'm not sure whether it has been moved.", "I'd like to know if I booked the right one.",
    "Your appointments: cleaning, Thursday 10:00.", "You have an appointment on Thursday at 10:00.",
    "You have an appointment booked for Thursday.", "You have no appointments coming up.", "Your next visit is on Friday.",
    "You have two bookings: cleaning and check-up.", "Your total is 300 lei.", "Here are your orders: 17 and 18.",
    "Did you book it?", "Have I booked the right day?", "Is your appointment booked?", "Has it been cancelled?",
    "Was your order placed?", "You say your appointment has been moved?", "Booked?", "All set?", "Are you all set?",
    "That slot is booked.", "That time is already booked.", "Dr. Ionescu is booked on Thursday.", "We are fully booked on Monday.",
    "Your dentist is booked then.", "Your preferred time is booked.", "The slot has just been booked by another patient.",
    "Thursday is booked.", "Our prices have been updated.", "The clinic has moved.", "Our schedule was changed in May.",
    "Your order was cancelled by the seller.", "It was booked by someone else.", "The appointment that was cancelled was at 10.",
    "The one which has been moved is on Friday.", "You wrote \"I have booked it\".", "The message said “Your appointment is confirmed”.",
    "You said your appointment was cancelled.", "I see that your appointment was cancelled.", "An appointment is confirmed by SMS.",
    "Appointments are cancelled by writing to us.", "Any order placed before noon is sent the same day.",
    "Every appointment cancelled late costs 50 lei.", "Appointments cancelled less than 24 hours before are charged.",
    "What would you like to book?", "Which appointment should be moved?", "I've found three free times.",
    "I've checked the calendar: Thursday at 10:00 is free.", "I've asked a colleague.", "I have your name as Ana.",
    "We are open on Monday, so come by.", "The set of tools is cleaned.", "A confirmed appointment gets a reminder.",
    "We book until June.", "Booked appointments can be moved.", "I need the booked day.", "It's all right.", "That is moving.",
    "Cleaning takes 45 minutes.", "Hello! How can I help?", "", "…", "?", "Please tell me which day suits you.",
]  # fmt: skip

ASKS = [
    "Do you want to book the 10:00 slot?", "Shall I lock that in?", "Please let me know if you'd like to proceed.",
    "Can you confirm that you want to cancel?",
    "Reply YES to confirm.", "Please reply YES.", "Reply with YES.", "Reply \"YES\" to book.", "Just say yes and it's yours.",
    "Answer with a yes.", "Text back YES.", "Type yes to go on.", "Write YES or NO.", "Send YES to confirm.",
    "Confirm by replying YES.", "Please confirm.", "Please confirm the booking.", "Can you confirm?", "Could you please confirm this?",
    "Do you confirm?", "Would you confirm it?", "Kindly confirm.", "I need you to confirm.", "You need to confirm first.",
    "You just have to confirm.", "Once you confirm, I'll book it.", "If you confirm, it is booked.", "I'm waiting for your confirmation.",
    "I need your confirmation.", "We await your approval.", "To confirm, reply here.", "Tap Confirm.", "Press the button to confirm.",
    "yes/no?", "Yes or no?", "Shall I book it?", "Shall I go ahead?", "Should I book Thursday at 10:00?", "Should I cancel it?",
    "Can I book that for you?", "May I move it to Friday?", "Shall we proceed?", "Should I go ahead and cancel?", "Do you want me to book it?",
    "Would you like me to cancel it?", "Want me to move it?", "Would you like me to go ahead and reserve it?", "Is it okay for me to cancel it?",
    "Are you sure?", "Are you sure you want to cancel?", "Is that correct?", "Is this right?", "Is everything correct?",
    "Cleaning on Thursday at 10:00, is that ok?", "Does that look right?", "Sound good?", "Ready to book?", "Would you like to proceed?",
    "Do you want to go ahead?", "Book it?", "Cancel it then?", "Confirm?", "OK to book?", "Let me know if I should book it.",
    "Let me know if you'd like me to cancel it.", "Tell me whether I should go ahead.", "Just give me the go-ahead.", "Say the word and it's done.",
    "Should I add 300 for groceries?", "Should I delete expense 1?", "Shall I place the order?", "Shall I register you?", "Shall I refund it?",
    "Shall I update your name?", "**Reply YES**", "Ｒｅｐｌｙ YES", "“Shall I book it?”", "10:00 is free. Shall I book it?",
]  # fmt: skip

ASKS_NOTHING = [
    "You don't need to confirm.", "No need to reply yes.", "There is no need to confirm.", "I can't confirm that.",
    "The system will ask you to confirm.", "You will be asked to confirm.", "It will ask you to reply YES.", "The system then asks you: reply YES.",
    "Your appointment is confirmed.", "I've confirmed it.", "We confirm by SMS.", "A colleague has to confirm the price.",
    "A confirmation is sent by SMS.", "Your booking was confirmed.", "Could you confirm which day you mean?", "Please confirm your name.",
    "Can you confirm your phone number?", "Please confirm which dentist you prefer.", "Could you confirm what time suits you?",
    "Which day should I book it for?", "What time shall I book?", "When should I move it to?", "For whom should I book it?", "Who can I book it with?",
    "How can I help?", "What can I do for you?", "Which one suits you?", "What day suits you?", "Would you like to book an appointment?",
    "Would you like a cleaning or a check-up?", "Do you want the morning or the afternoon?", "Does 10:00 suit you?", "Shall I show you free times?",
    "Should I ask a colleague?", "Shall I check another day?", "Do you want me to look for another time?", "Do you prefer Dr. Ionescu?",
    "You can book by writing to us.", "I can book a cleaning for you.", "You can cancel until Wednesday.", "We are open, yes.", "Yes, we do cleanings.",
    "Yes. We are open until 18:00.", "Yes, that is possible.", "I'll say it again: we open at 9.", "Our colleagues answer within the hour.",
    "Your order number is 17.", "You have an appointment on Thursday.", "The message said “Reply YES to confirm”.", "You wrote \"shall I book it\".",
    "Should I have pain, what do I do?", "Can I help you with anything else?", "Is Thursday at 10:00 good?", "Is the tooth right at the back?",
    "Is it urgent?", "Was that right after the filling?", "Who confirmed it?", "Did you book it yourself?", "Do you have an appointment?",
    "Why did you cancel it?", "When did you book it?", "Order status?", "Change of plans?", "Hello! How are you?", "", "?", "Thank you!",
    "Please tell me your name.", "Please write the day you prefer.", "Answer the door on Thursday.",
]  # fmt: skip


@pytest.mark.parametrize("text", CLAIMS)
def test_it_claims_that_something_is_done(text: str) -> None:
    assert claims_done(text, BOTH)


@pytest.mark.parametrize("text", NO_CLAIMS)
def test_it_claims_nothing(text: str) -> None:
    assert not claims_done(text, BOTH)


@pytest.mark.parametrize("text", ASKS)
def test_it_asks_for_a_yes(text: str) -> None:
    assert asks_to_confirm(text, BOTH)


@pytest.mark.parametrize("text", ASKS_NOTHING)
def test_it_asks_for_no_yes(text: str) -> None:
    assert not asks_to_confirm(text, BOTH)


VERBS = {
    "book": "booked", "move": "moved", "reschedule": "rescheduled", "cancel": "cancelled", "add": "added", "delete": "deleted",
    "remove": "removed", "order": "ordered", "place": "placed", "update": "updated", "change": "changed",
    "register": "registered", "send": "sent", "refund": "refunded", "reserve": "reserved",
}  # fmt: skip


@pytest.mark.parametrize(("base", "done"), VERBS.items())
def test_every_generic_verb_is_known_in_every_form(base: str, done: str) -> None:
    for claim in (
        "I've {} it.",
        "We have {} your order.",
        "Your order has been {}.",
        "{}: one item",
        "✅ {}",
        "It's been {}.",
        "It's {}.",
    ):
        assert claims_done(claim.format(done.capitalize() if claim[0] == "{" else done), BOTH), claim
    for none in (
        "I haven't {} it.",
        "If I {} it, tell me.",
        "Has it been {}?",
        "Once it's {}, you'll know.",
        "It should be {}.",
    ):
        assert not claims_done(none.format(done), BOTH), none
    for later in (
        "I'll {} it.",
        "I can {} it.",
        "You can {} it here.",
        "Let me {} it.",
        "I could not {} it.",
    ):
        assert not claims_done(later.format(base), BOTH), later
    assert asks_to_confirm(f"Shall I {base} it?", BOTH)
    assert not asks_to_confirm(f"I could {base} it on Monday.", BOTH)
