"""What the clinic lets a model ask for. Each class of risk says in one line what a wrong call costs."""

from typing import Final

from packs.clinic import operations, wording
from packs.clinic.arguments import BookAppointment, FindSlots, Nothing
from shared.autonomy import Risk
from shared.packs import Tool, ToolKind

TOOLS: Final = (
    Tool(
        name="get_clinic_info",
        description="The clinic's opening hours, address, phone, services (length, price) and dentists.",
        arguments=Nothing,
        kind=ToolKind.READ,
        risk=Risk.READ,
        wrong_call_costs="Nothing: the clinic tells this to everybody.",
        read=operations.get_clinic_info,
    ),
    Tool(
        name="find_slots",
        description=(
            "Free times for a service between two days (up to 31): at most 8, spread over what is free. "
            "Use it when the customer asks what is free or has named no time. "
            "When nothing is free, `nearest` has the next ones."
        ),
        arguments=FindSlots,
        kind=ToolKind.READ,
        risk=Risk.READ,
        wrong_call_costs="A needless answer; it shows what is free, never whose the rest is.",
        read=operations.find_slots,
    ),
    Tool(
        name="list_my_appointments",
        description="The appointments that this customer has coming up. Nobody else's can be seen.",
        arguments=Nothing,
        kind=ToolKind.READ,
        risk=Risk.READ,
        wrong_call_costs="Somebody else who holds the customer's phone reads when they come.",
        read=operations.list_my_appointments,
    ),
    Tool(
        name="book_appointment",
        description=(
            "Ask to book an appointment for this customer. Call it as soon as service and start are known: "
            "the system checks it and asks the customer to confirm. "
            "Without a dentist, the first who is free is taken."
        ),
        arguments=BookAppointment,
        kind=ToolKind.ACTION,
        risk=Risk.WRITE,
        wrong_call_costs="An hour of a dentist is held for nobody until someone cancels it.",
        example="Can I have a cleaning on Thursday at 10?",
        floor=1,
        level=2,
        check=operations.check_booking,
        execute=operations.execute_booking,
        word_prompt=wording.book_prompt,
        word_done=wording.book_done,
        word_refusal=wording.refusal,
    ),
)
