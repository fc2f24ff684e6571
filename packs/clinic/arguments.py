"""What a model may say to the tools. Strict and bounded: what does not fit is refused, never repaired."""

from datetime import date, datetime
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

RANGE_DAYS_MAX: Final = 31


def _real_day(text: str) -> str:
    date.fromisoformat(text)
    return text


def _real_time(text: str) -> str:
    datetime.fromisoformat(text)
    return text


Day = Annotated[str, Field(pattern=r"^20\d\d-\d\d-\d\d$", max_length=10), AfterValidator(_real_day)]
Start = Annotated[
    str,
    Field(
        pattern=r"^20\d\d-\d\d-\d\dT\d\d:\d\d(:00)?(Z|[+-]\d\d:\d\d)?$",
        max_length=25,
        description="Local date and time in ISO form, from the calendar: 2026-12-03T10:00",
    ),
    AfterValidator(_real_time),
]
ServiceName = Annotated[str, Field(min_length=1, max_length=60, description="The service's code: cleaning")]
DentistName = Annotated[
    str, Field(min_length=1, max_length=80, description="Only when the customer named one: Dr. Ionescu")
]
AppointmentId = Annotated[
    str,
    Field(
        pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        max_length=36,
        description="The appointment's id, from list_my_appointments",
    ),
]


class Arguments(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Nothing(Arguments):
    """A tool that takes no arguments."""


class FindSlots(Arguments):
    service: ServiceName
    first_day: Day
    last_day: Day
    dentist: DentistName | None = None
    part_of_day: Literal["morning", "afternoon", "evening"] | None = None

    @model_validator(mode="after")
    def sensible(self) -> Self:
        days = (date.fromisoformat(self.last_day) - date.fromisoformat(self.first_day)).days
        if not 0 <= days < RANGE_DAYS_MAX:
            raise ValueError(f"last_day must be first_day or up to {RANGE_DAYS_MAX - 1} days after it")
        return self


class BookAppointment(Arguments):
    service: ServiceName
    start: Start
    dentist: DentistName | None = None


class RescheduleAppointment(Arguments):
    appointment: AppointmentId
    start: Start


class CancelAppointment(Arguments):
    appointment: AppointmentId


class UpdateMyName(Arguments):
    name: Annotated[
        str, Field(min_length=1, max_length=80, description="First and last name, as the customer wrote them")
    ]
