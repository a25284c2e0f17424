"""Finds a job at an origin, buys one run of it with the official x402 client and prints the result.

    PAYER_KEY=0x… python buy.py ORIGIN [NAME [BODY]]
"""

import json
import os
import sys
import time
import uuid
from urllib.parse import urljoin

import requests
from eth_account import Account
from x402 import x402ClientSync
from x402.extensions.payment_identifier import append_payment_identifier_to_extensions
from x402.http.clients.requests import PaymentError, wrapRequestsWithPayment
from x402.mechanisms.evm import EthAccountSigner
from x402.mechanisms.evm.exact import ExactEvmScheme

MAX_TRIES = 60
origin, name, text = (sys.argv[1:] + [None, None])[:3]


def until_ok(send) -> requests.Response:
    for tries in range(1, MAX_TRIES + 1):
        try:
            answer = send()
            if answer.ok:
                return answer
            if not answer.json().get("retryable") or tries == MAX_TRIES:
                sys.exit(f"{answer.status_code}: {answer.json()['error']}")
        except (requests.RequestException, PaymentError) as error:
            is_lost_answer = isinstance(error.__cause__ or error, requests.RequestException)
            if not is_lost_answer or tries == MAX_TRIES:
                raise
        time.sleep(1)


jobs = requests.get(urljoin(origin, "/x402/jobs"), timeout=30).json()["jobs"]
for_sale = [job for job in jobs if job["settlement_options"]]
job = next(job for job in for_sale if (job.get("name") == name if name else job["mode"] == "public_paid"))
option, given = job["settlement_options"][0], job.get("input", {})
kind, tokens = given.get("content_type", "text/plain"), int(option["amount"]) / 10 ** option["decimals"]
print(f"{job.get('name')}: {job.get('description', 'no description')}", file=sys.stderr)
print(f"{tokens} {option['symbol']} on {option['network']}, input: {given.get('schema', kind)}", file=sys.stderr)

# Kept over all tries. If an answer is lost, the seller knows the purchase by it and takes no second payment.
payment_id = str(uuid.uuid4())


def identify(context) -> None:
    append_payment_identifier_to_extensions(context.payment_required.extensions or {}, payment_id)


account = Account.from_key(os.environ["PAYER_KEY"])
client = x402ClientSync()
client.register(option["network"], ExactEvmScheme(signer=EthAccountSigner(account)))
client.on_before_payment_creation(identify)
session = wrapRequestsWithPayment(requests.Session(), client)
headers = {"content-type": kind, "prefer": "wait=30"}
example = given.get("example")
body = (text or (json.dumps(example) if "json" in kind else example or "")).encode()

answer = until_ok(lambda: session.post(job["x402_endpoint"], data=body, headers=headers, timeout=60))
if answer.status_code == 202:
    bought = answer.json()
    url = urljoin(job["x402_endpoint"], bought["links"]["result"])
    access = {"authorization": f"Bearer {bought['access_token']}"}
    answer = until_ok(lambda: requests.get(url, headers=access, timeout=30))
print(answer.text)
