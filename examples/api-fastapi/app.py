"""An HTTP API that knows nothing of payments."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import FastAPI, Form, Header, HTTPException, Response, UploadFile
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

CITIES = {"Paris": 21, "Oslo": 12}
# 5 MB that a reader of PDF opens as an empty document.
PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
    + b"% padding\n" * 500_000
    + b"\ntrailer<</Root 1 0 R>>\n%%EOF\n"
)
notes: dict[int, str] = {}

app = FastAPI()


class Text(BaseModel):
    text: str


@app.get("/health")
def health() -> dict[str, bool]:
    return {"ok": True}


@app.get("/weather/{city}")
def weather(
    city: str, units: str = "celsius", if_none_match: Annotated[str | None, Header()] = None
) -> Response:
    if city not in CITIES:
        raise HTTPException(404, "no such city")
    temperature = CITIES[city] + (273 if units == "kelvin" else 0)
    answer = JSONResponse({"city": city, "temperature": temperature})
    etag = f'"{hashlib.sha256(answer.body).hexdigest()[:16]}"'
    if if_none_match == etag:
        return Response(status_code=304, headers={"ETag": etag})
    answer.headers["ETag"] = etag
    return answer


@app.post("/summaries")
def summarize(body: Text) -> dict[str, str]:
    return {"summary": body.text[:10]}


@app.post("/uploads")
def upload(file: UploadFile, title: Annotated[str, Form()]) -> dict[str, str | int | None]:
    return {"name": file.filename, "bytes": file.size, "title": title}


@app.post("/notes", status_code=201)
def add_note(body: Text, response: Response) -> dict[str, int]:
    number = len(notes) + 1
    notes[number] = body.text
    response.headers["Location"] = f"/notes/{number}"
    return {"id": number}


@app.put("/notes/{number}", status_code=204)
def change_note(number: int, body: Text) -> None:
    notes[number] = body.text


class Pdf(Response):
    media_type = "application/pdf"


@app.get("/reports/annual.pdf", response_class=Pdf)
def annual_report() -> Pdf:
    return Pdf(PDF)


# FastAPI redirects /reports here.
@app.get("/reports/")
def reports() -> list[str]:
    return ["annual.pdf"]


@app.get("/faults/error")
def fail() -> None:
    raise HTTPException(500, "it failed")


@app.get("/faults/hang")
async def hang() -> None:
    await asyncio.Event().wait()


async def die() -> AsyncIterator[bytes]:
    yield b"a part"
    raise RuntimeError("it died in the middle of an answer")


@app.get("/faults/death")
def death() -> StreamingResponse:
    return StreamingResponse(die(), headers={"Content-Length": "1000"})
