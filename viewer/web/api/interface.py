"""The routes of the HTTP interface: their rights, answers and errors, and the OpenAPI document."""

import json
from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from typing import Annotated, Any, Literal, TypeVar, cast

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.core.management.base import CommandError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET
from ninja import NinjaAPI, Schema
from ninja.errors import HttpError, ValidationError
from ninja.parser import Parser
from ninja.security import HttpBearer
from pydantic import ConfigDict, Field, create_model

from viewer.cli import NEW_FILE, as_json
from viewer.cli.arguments import FROM_FILE, arguments_of, command_line, is_list, parser_of
from viewer.host_requests import HostAway, HostRefusal
from viewer.messages.message import UserFacingError
from viewer.messages.translation import translate
from viewer.models import Right
from viewer.records.permissions import requires
from viewer.validation import MAX_CHARACTERS, brief

View = TypeVar("View", bound=Callable[..., HttpResponse])
# The headers of answers: Forkline's version, and the exit status of a command.
VERSION, EXIT_STATUS = "Forkline-Version", "Forkline-Exit-Status"
# The largest key of a row.
MAX_KEY = 2**63 - 1


class Error(Schema):
    """Why there is no other document."""

    error: str


class OneOfEachKey(Parser):
    """Reads bodies. An object with the same key twice is refused: readers differ in which one counts."""

    def parse_body(self, request: HttpRequest) -> dict[str, Any]:
        """Return the JSON value of the body. Raises HttpError."""
        try:
            body = json.loads(request.body, object_pairs_hook=_object, parse_constant=_refused)
        except (ValueError, RecursionError):
            raise HttpError(400, "The body is not one JSON object with each key once.") from None
        return body if isinstance(body, dict) else {"body": body}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


class ByToken(HttpBearer):
    """Describes the token. A middleware has checked it already (checkpoint_site/middleware/responses.py)."""

    def authenticate(self, request: HttpRequest, token: str) -> Any:
        """Return the person for whom the token acts."""
        return request.user if request.user.is_authenticated else None


api = NinjaAPI(
    title="Forkline",
    version="1",
    description="The documents of the `forkline` command's `--json`. docs/guide/http.md explains them.",
    openapi_url=None,
    docs_url=None,
    auth=ByToken(),
    parser=OneOfEachKey(),
)
# The names of the routes, with their views.
views: dict[str, Callable[..., HttpResponse]] = {}
# What every route may answer instead.
ERRORS = {
    **{400: "The body cannot be read.", 401: "The token does not work."},
    **{
        403: "The token's role does not allow it.",
        404: "There is no such object, or the token does not see it.",
    },
    **{409: "It is not possible now. The document says why.", 422: "A value is not valid."},
    **{429: "Too many requests with tokens that do not work.", 503: "The data folder or a host is away."},
}


def route(
    method: str,
    address: str,
    *,
    name: str,
    right: Right,
    everywhere: bool = False,
    example: Mapping[str, Any],
    answers: Mapping[int, str] | None = None,
    media_types: Collection[str] = (),
) -> Callable[[View], View]:
    """Decorator: declare a route, the right that it requires, an example of its document and its statuses.

    ``media_types`` are those of answers that are no documents.
    """
    answers = answers or {200: "The document."}
    content: dict[str, Any] = {name: {} for name in media_types} or {
        "application/json": {"example": dict(example)}
    }
    described: dict[int, Any] = {
        **{status: {"description": text} for status, text in ERRORS.items()},
        **{status: {"description": text, "content": content} for status, text in answers.items()},
    }

    def declared(view: View) -> View:
        views[name] = requires(right, everywhere=everywhere)(view)
        models: dict[int, Any] = dict.fromkeys(ERRORS, Error) | dict.fromkeys(answers, dict[str, Any])
        extra = {"responses": described}
        api.api_operation(
            [method], address, response=models, url_name=name, operation_id=name, openapi_extra=extra
        )(view)
        return view

    return declared


def answer(document: Mapping[str, Any], status: int = 200) -> HttpResponse:
    """Return a document as the terminal prints it."""
    return replied(as_json(document), status)


def replied(text: str, status: int = 200, exit_status: int | None = None) -> HttpResponse:
    """Return a JSON text. A command's answer names its exit status."""
    response = HttpResponse(text, content_type="application/json", status=status)
    response[VERSION] = settings.VERSION
    if exit_status is not None:
        response[EXIT_STATUS] = str(exit_status)
    return response


def refused(text: str, status: int) -> HttpResponse:
    """Return an error as one line."""
    return answer({"error": brief(text)}, status)


# Errors as documents.


@api.exception_handler(Http404)
def _missing(request: HttpRequest, error: Exception) -> HttpResponse:
    return refused("There is no such object, or this token does not see it.", 404)


@api.exception_handler(PermissionDenied)
def _not_permitted(request: HttpRequest, error: Exception) -> HttpResponse:
    return refused("This token does not have the role for that.", 403)


@api.exception_handler(CommandError)
def _invalid(request: HttpRequest, error: CommandError) -> HttpResponse:
    response = refused(str(error), 422)
    response[EXIT_STATUS] = str(error.returncode)
    return response


@api.exception_handler(UserFacingError)
def _refusal(request: HttpRequest, error: UserFacingError) -> HttpResponse:
    # What a checkpoint or job refuses is its state. Other refusals of a host pass.
    if error.message.code == "host.not_permitted":
        return _not_permitted(request, error)
    is_away = isinstance(error, HostAway) or type(error) is HostRefusal
    return refused(translate(error), HTTPStatus.SERVICE_UNAVAILABLE if is_away else HTTPStatus.CONFLICT)


@api.exception_handler(HttpError)
def _malformed(request: HttpRequest, error: HttpError) -> HttpResponse:
    return refused(str(error), error.status_code)


@api.exception_handler(ValidationError)
def _not_valid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    found = error.errors[0]
    name = ".".join(str(part) for part in found["loc"][1:])
    return refused(f"{name}: {found['msg']}", 422)


# The addresses.


@requires(Right.VIEW)
@csrf_exempt
@require_GET
def show_openapi(request: HttpRequest) -> HttpResponse:
    """Return the OpenAPI document."""
    schema = api.get_openapi_schema(path_prefix="/api/")
    return HttpResponse(json.dumps(schema), content_type="application/json")


def addresses() -> list[URLPattern]:
    """Return the addresses of all routes, and of the OpenAPI document."""
    found = [path("openapi.json", show_openapi, name="api-openapi")]
    for pattern in api.urls[0]:
        if isinstance(pattern, URLPattern) and pattern.name in views:
            pattern.callback.rule = views[pattern.name].rule  # type: ignore[attr-defined]
            found.append(pattern)
    for pattern in found:
        pattern.callback.by_token = True  # type: ignore[attr-defined]
    return found


# Of one list.
MAX_VALUES = 10_000


class Options(Schema):
    """The options of a command, by their names with underscores."""

    model_config = ConfigDict(extra="forbid")


def options_of(
    name: str, command: str, without: Collection[str], example: Mapping[str, Any] | None = None
) -> type[Options]:
    """Return the type of this name of bodies with the arguments of a command, derived from its parser."""
    fields: dict[str, Any] = {}
    for argument, action in arguments_of(command).items():
        if argument in without:
            continue
        text = (action.help or "") % {"default": action.default}
        is_required = not action.option_strings and action.nargs is None
        default: Any = ... if is_required else None
        if action.nargs == 0:
            fields[argument] = (bool, Field(False, description=text))
        elif action.type is NEW_FILE:
            fields[argument] = (Literal["-"] | None, Field(None, description="- returns the file."))
        elif action.choices and action.nargs is None:
            kind: Any = Literal[tuple(map(str, action.choices))]
            fields[argument] = (kind if is_required else kind | None, Field(default, description=text))
        else:
            typed = Annotated[str, Field(max_length=MAX_CHARACTERS)]
            # Only a terminal names files.
            metavar = str(action.metavar or argument.upper()).replace(f"|{FROM_FILE}", "")
            kind = typed if is_required else typed | None
            if is_list(action):
                kind, default = Annotated[list[typed], Field(max_length=MAX_VALUES)], []
            fields[argument] = (kind, Field(default, description=f"{metavar}: {text}"))
    base = Options
    if example is not None:
        config = ConfigDict(extra="forbid", json_schema_extra={"example": dict(example)})
        base = cast(type[Options], type("Options", (Options,), {"model_config": config}))
    return cast(type[Options], create_model(name, __base__=base, **fields))


def given_in(body: Options) -> dict[str, Any]:
    """Return what a body names, without options that are false."""
    return {
        name: value for name, value in body.dict(exclude_unset=True).items() if value not in (None, False)
    }


def parsed(command: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as the command parses them. Raises CommandError."""
    return vars(parser_of(command).parse_args(command_line(command, given)))
