"""Requests a signed quote for one run of a job from jobgate and pays it with the official x402 client.

    python buy.py SERVICE_ID JOB_INDEX INPUTS
"""

import hashlib
import json
import os
import sys
import time

import grpc
import requests
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_utils import keccak
from pricing_engine import pricing_pb2, pricing_pb2_grpc
from x402 import SchemeRegistration, x402ClientConfig
from x402.http.clients.requests import wrapRequestsWithPaymentFromConfig
from x402.mechanisms.evm import EthAccountSigner
from x402.mechanisms.evm.exact import ExactEvmScheme

PROOF_BITS = int(os.environ.get("PROOF_OF_WORK_BITS", "20"))


def proof_of_work(service_id: int, timestamp: int) -> bytes:
    """Proof of work for the engine: a hash with enough leading zero bits."""
    challenge = hashlib.sha256(service_id.to_bytes(8, "big") + timestamp.to_bytes(8, "big")).digest()
    for nonce in range(2**40):
        digest = hashlib.sha256(challenge + nonce.to_bytes(8, "big")).digest()
        if int.from_bytes(digest, "big") >> (256 - PROOF_BITS) == 0:
            return (32).to_bytes(8, "little") + digest + nonce.to_bytes(8, "little")
    raise RuntimeError("no proof of work was found")


def digest_of(quote) -> str:
    """EIP-712 digest of the quote, which identifies it."""
    signable = encode_typed_data(
        domain_data={
            "name": "TangleQuote",
            "version": "1",
            "chainId": int(os.environ["QUOTE_CHAIN_ID"]),
            "verifyingContract": os.environ["QUOTE_CONTRACT"],
        },
        message_types={
            "JobQuoteDetails": [
                {"name": "requester", "type": "address"},
                {"name": "serviceId", "type": "uint64"},
                {"name": "jobIndex", "type": "uint8"},
                {"name": "price", "type": "uint256"},
                {"name": "timestamp", "type": "uint64"},
                {"name": "expiry", "type": "uint64"},
                {"name": "confidentiality", "type": "uint8"},
                {"name": "inputsHash", "type": "bytes32"},
            ]
        },
        message_data={
            "requester": "0x" + quote.requester.hex(),
            "serviceId": quote.service_id,
            "jobIndex": quote.job_index,
            "price": int.from_bytes(quote.price, "big"),
            "timestamp": quote.timestamp,
            "expiry": quote.expiry,
            "confidentiality": quote.confidentiality,
            "inputsHash": quote.inputs_hash,
        },
    )
    return keccak(b"\x19" + signable.version + signable.header + signable.body).hex()


def main() -> None:
    service_id, job_index, inputs = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode()
    account = Account.from_key(os.environ["PAYER_KEY"])
    timestamp = int(time.time())
    with grpc.insecure_channel(os.environ.get("JOBGATE_PRICING", "127.0.0.1:8404")) as channel:
        answer = pricing_pb2_grpc.PricingEngineStub(channel).GetJobPrice(
            pricing_pb2.GetJobPriceRequest(
                service_id=service_id,
                job_index=job_index,
                proof_of_work=proof_of_work(service_id, timestamp),
                challenge_timestamp=timestamp,
                requester=bytes.fromhex(account.address[2:]),
                inputs_hash=keccak(inputs),
            ),
            timeout=30,
        )
    if not answer.settlement_options:
        sys.exit("this quote cannot be paid over x402")
    option = answer.settlement_options[0]

    signer = ExactEvmScheme(signer=EthAccountSigner(account))
    # Pay in this token, and no more than quoted.
    asset = {"network": option.network, "asset": option.asset, "max_amount_per_payment": option.amount}
    config = x402ClientConfig(
        schemes=[SchemeRegistration(network=option.network, client=signer)],
        spend_controls={"allowed_assets": [asset]},
    )
    session = wrapRequestsWithPaymentFromConfig(requests.Session(), config)
    digest = digest_of(answer.quote_details)
    response = session.post(
        answer.x402_endpoint, data=inputs, headers={"X-X402-QUOTE-DIGEST": digest}, timeout=60
    )
    print(
        json.dumps(
            {
                "quote": digest,
                "amount": option.amount,
                "symbol": option.symbol,
                "status": response.status_code,
                "answer": response.json(),
            }
        )
    )


if __name__ == "__main__":
    main()
