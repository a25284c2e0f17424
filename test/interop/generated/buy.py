"""Buys the routes of an API with a client made from the seller's openapi.json, and prints each answer as a line of JSON.

    KEY=0x… SELLER=http://… python buy.py
"""

import asyncio
import json
import os

from eth_account import Account
from seller import ApiClient, ApiException, Configuration, DefaultApi
from seller.models.add_note_notes_post_input_text import AddNoteNotesPostInputText
from x402 import x402Client
from x402.http.clients.httpx import wrapHttpxWithPayment
from x402.mechanisms.evm import EthAccountSigner
from x402.mechanisms.evm.exact import ExactEvmScheme

x402 = x402Client()
x402.register("eip155:*", ExactEvmScheme(signer=EthAccountSigner(Account.from_key(os.environ["KEY"]))))


def tell(status: int, data: object) -> None:
    print(json.dumps({"status": status, "data": data or None}))


async def main() -> None:
    async with ApiClient(Configuration(host=os.environ["SELLER"])) as client:
        # The generated client sends by httpx, which pays.
        client.rest_client.pool_manager = wrapHttpxWithPayment(x402, timeout=60)
        api = DefaultApi(client)
        text = AddNoteNotesPostInputText(text="a long text")
        for answer in [
            await api.health_health_get_with_http_info(),
            await api.weather_weather_city_get_with_http_info("Oslo", units="kelvin"),
            await api.summarize_summaries_post_with_http_info(text.to_dict()),
            await api.add_note_notes_post_with_http_info(text),
            await api.change_note_notes_number_put_with_http_info(1, text.to_dict()),
        ]:
            tell(answer.status_code, answer.data)
        report = await api.annual_report_reports_annual_pdf_get_with_http_info()
        tell(report.status_code, {"bytes": len(report.data)})
        reports = await api.reports_reports_get_with_http_info()
        tell(reports.status_code, reports.data)
        try:
            await api.death_faults_death_get()
        except ApiException as failed:
            charged = failed.data.charged.actual_instance
            tell(failed.status, {"code": failed.data.code, "charged": charged})


asyncio.run(main())
