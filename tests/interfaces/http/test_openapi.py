"""The description of the API: every route is in it, and every answer is as it says."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from kbsync.interfaces.http import schemas
from tests.fakes.eventually import eventually
from tests.interfaces.conftest import Service

# Design: the routes of the API, with what a good answer is.
ROUTES = {
    ("get", "status"): 200,
    ("get", "search"): 200,
    ("post", "documents"): 202,
    ("post", "notes"): 202,
    ("get", "documents"): 200,
    ("get", "documents/{document_id}"): 200,
    ("delete", "documents/{document_id}"): 200,
    ("get", "jobs"): 200,
    ("get", "jobs/{job_id}"): 200,
    ("post", "jobs/{job_id}/retry"): 202,
    ("get", "sources"): 200,
    ("post", "sources"): 200,
    ("get", "events"): 200,
}


@pytest.fixture(scope="module")
def described(service: Service) -> dict[str, Any]:
    found = service.ask("GET", "openapi.json").json()
    assert isinstance(found, dict)
    return found


def test_every_public_route_is_described_with_its_answer(described: dict[str, Any]) -> None:
    for (method, route), status in ROUTES.items():
        operation = described["paths"][f"/api/v1/{route}"][method]
        (content,) = operation["responses"][str(status)]["content"].values()
        assert content["schema"] not in ({}, {"type": "object"}), route


def test_every_route_of_the_app_is_described(described: dict[str, Any]) -> None:
    public = {
        (method, path.removeprefix("/api/v1/"))
        for path, methods in described["paths"].items()
        for method in methods
        if not path.startswith("/api/v1/local/")
    }
    assert public - {("post", "reindex"), ("get", "reindex")} == set(ROUTES)


def test_every_refusal_is_described_in_its_one_shape(described: dict[str, Any]) -> None:
    refusal = {"$ref": "#/components/schemas/Refusal"}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            for status in ("400", "401", "403", "404", "409", "413", "415", "422", "503"):
                response = operation["responses"][status]
                assert response["content"]["application/json"]["schema"] == refusal, (path, method, status)


def test_the_token_is_described(described: dict[str, Any]) -> None:
    (scheme,) = described["components"]["securitySchemes"].values()
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    assert all(operation["security"] for methods in described["paths"].values() for operation in methods.values())


def test_the_body_of_an_upload_is_described(described: dict[str, Any]) -> None:
    operation = described["paths"]["/api/v1/documents"]["post"]
    assert list(operation["requestBody"]["content"]) == ["application/octet-stream"]
    names = {parameter["name"]: parameter["required"] for parameter in operation["parameters"]}
    assert names == {"filename": True, "title": False, "type": False, "language": False, "ocr": False}


def test_every_answer_is_as_it_is_described(service: Service) -> None:
    service.write("quince.md", "# Quince\n\n## Fruit\n\nQuinces are cooked.\n")
    job_id = service.ask("POST", "notes", {"text": "Quinces are hard."}).json()["job_id"]
    eventually(lambda: service.ask("GET", f"jobs/{job_id}").json()["state"] == "done")
    document_id = service.ask("GET", f"jobs/{job_id}").json()["document_id"]
    answers: list[tuple[type[BaseModel], str, str]] = [
        (schemas.Status, "GET", "status"),
        (schemas.SearchAnswer, "GET", "search?q=quinces"),
        (schemas.DocumentsAnswer, "GET", "documents"),
        (schemas.DocumentWithChunks, "GET", f"documents/{document_id}"),
        (schemas.JobsAnswer, "GET", "jobs"),
        (schemas.JobRecord, "GET", f"jobs/{job_id}"),
        (schemas.SourcesAnswer, "GET", "sources"),
        (schemas.Refusal, "POST", f"jobs/{job_id}/retry"),
        (schemas.RemovedDocument, "DELETE", f"documents/{document_id}"),
        (schemas.Refusal, "GET", "documents/999999"),
        (schemas.Refusal, "GET", "nothing/of/the/kind"),
        (schemas.Refusal, "PATCH", "status"),
    ]
    for model, method, route in answers:
        model.model_validate(service.ask(method, route).json(), strict=True)
