"""Buys the first tool of an MCP server, by the official Python clients of MCP and x402, and prints how it went as JSON.

    KEY=0x… python buy_tool.py legacy|VERSION URL BODY
"""

import asyncio
import json
import os
import sys

from eth_account import Account
from mcp import Client
from x402 import x402Client
from x402.mechanisms.evm import EthAccountSigner
from x402.mechanisms.evm.exact import ExactEvmScheme
from x402.schemas import PaymentRequired

mode, url, body = sys.argv[1:]


async def main() -> None:
    payer = x402Client()
    payer.register("eip155:*", ExactEvmScheme(signer=EthAccountSigner(Account.from_key(os.environ["KEY"]))))
    payer.set_spend_controls(False)
    async with Client(url, mode=mode) as mcp:
        name = (await mcp.list_tools()).tools[0].name
        asked = await mcp.call_tool(name, {"body": body})
        payment = await payer.create_payment_payload(PaymentRequired.model_validate(asked.structured_content))
        meta = {"x402/payment": payment.model_dump(by_alias=True, exclude_none=True)}
        bought = await mcp.call_tool(name, {"body": body}, meta=meta)
        settled = bought.meta["x402/payment-response"]["success"]
        print(json.dumps({"asked": asked.is_error, "refused": bought.is_error, "settled": settled}))


asyncio.run(main())
