"""Sends requests with an official Python client, and prints each answer as a line of JSON.

    KEY=0x… REQUESTS=[…] python buy.py httpx|requests URL

With SOLANA_RPC_URL, KEY is the seed of an account of Solana.
"""

import asyncio
import base64
import json
import os
import sys

import requests
from eth_account import Account
from solders.keypair import Keypair
from x402 import x402Client, x402ClientSync
from x402.http.clients.httpx import wrapHttpxWithPayment
from x402.http.clients.requests import wrapRequestsWithPayment
from x402.mechanisms.evm import EthAccountSigner
from x402.mechanisms.evm.exact import ExactEvmScheme
from x402.mechanisms.svm import KeypairSigner
from x402.mechanisms.svm.exact import ExactSvmScheme

library, url = sys.argv[1:]
asked = json.loads(os.environ["REQUESTS"])
key = os.environ["KEY"]
rpc_url = os.environ.get("SOLANA_RPC_URL")
if rpc_url is None:
    networks = "eip155:*"
    scheme = ExactEvmScheme(signer=EthAccountSigner(Account.from_key(key)))
else:
    networks = "solana:*"
    scheme = ExactSvmScheme(KeypairSigner(Keypair.from_seed(bytes.fromhex(key[2:]))), rpc_url)


def arguments(request: dict) -> dict:
    given = {"headers": request.get("headers", {})}
    if "json" in request:
        given["json"] = request["json"]
    if "form" in request:
        form = request["form"]
        given["files"] = {"file": (form["name"], form["text"].encode())}
        given["data"] = {"title": form["title"]}
    return given


def tell(status: int, headers: dict, body: bytes) -> None:
    told = {name.lower(): value for name, value in headers.items()}
    print(json.dumps({"status": status, "headers": told, "body": base64.b64encode(body).decode()}), flush=True)


async def by_httpx() -> None:
    client = x402Client()
    client.register(networks, scheme)
    async with wrapHttpxWithPayment(client, timeout=60) as http:
        for request in asked:
            answer = await http.request(request["method"], url + request["path"], **arguments(request))
            tell(answer.status_code, answer.headers, answer.content)


def by_requests() -> None:
    client = x402ClientSync()
    client.register(networks, scheme)
    session = wrapRequestsWithPayment(requests.Session(), client)
    for request in asked:
        options = {"allow_redirects": False, "timeout": 60, **arguments(request)}
        answer = session.request(request["method"], url + request["path"], **options)
        tell(answer.status_code, answer.headers, answer.content)


if library == "httpx":
    asyncio.run(by_httpx())
else:
    by_requests()
