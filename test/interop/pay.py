"""Pays one request with the official client in Python, by one transfer method, and prints the outcome as JSON.

    PAYER_KEY=0x… python pay.py URL eip3009|permit2 BODY
"""

import json
import os
import sys

import requests
from eth_account import Account
from x402 import x402ClientSync
from x402.http.clients.requests import wrapRequestsWithPayment
from x402.mechanisms.evm import EthAccountSigner
from x402.mechanisms.evm.exact import ExactEvmScheme

url, method, body = sys.argv[1:]


def by_method(_version, offers):
    return [offer for offer in offers if offer.extra.get("assetTransferMethod", "eip3009") == method]


client = x402ClientSync()
client.set_spend_controls(False)
client.register("eip155:*", ExactEvmScheme(signer=EthAccountSigner(Account.from_key(os.environ["PAYER_KEY"]))))
client.register_policy(by_method)
answer = wrapRequestsWithPayment(requests.Session(), client).post(url, data=body.encode(), timeout=60)
print(json.dumps({"status": answer.status_code, "body": answer.json()}))
