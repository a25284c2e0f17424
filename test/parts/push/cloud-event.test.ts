import { expect, test } from "vitest";
import { encodeJobCall } from "../../../src/delivery/job-call-codec.ts";
import { toCloudEvent } from "../../../src/parts/push/cloud-event.ts";

function eventOf(metadata: Record<string, string>, body = Buffer.from([0, 255, 128])) {
  const encoded = encodeJobCall({ origin: "webhook", jobId: 2n ** 64n - 1n, serviceId: 3n, body, metadata });
  const [enqueuedAt, leaseExpiresAt] = [Date.UTC(2026, 0, 2, 3, 4, 5, 6), Date.UTC(2026, 0, 2, 3, 5)];
  return toCloudEvent(
    {
      ...{
        callId: 12,
        leaseToken: "token",
        encoded,
        attempt: 4,
        forgiven: 0,
        suspect: false,
        deferred: false,
      },
      ...{ enqueuedAt, leaseExpiresAt },
    },
    500,
  );
}

test("A CloudEvent has the attributes of its JobCall, and its body byte for byte", () => {
  const { headers, body } = eventOf({});
  expect([...body]).toEqual([0, 255, 128]);
  expect(headers).toEqual({
    "content-type": "application/octet-stream",
    "ce-specversion": "1.0",
    "ce-type": "jobgate.job",
    "ce-source": "/services/3",
    "ce-id": "12",
    "ce-subject": "18446744073709551615",
    "ce-time": "2026-01-02T03:04:05.006Z",
    "ce-attempt": "4",
    "ce-leasetoken": "token",
    "ce-leasesecs": "0.5",
    "ce-leaseexpires": "2026-01-02T03:05:00.000Z",
    "X-CHAIN-CALL-ID": "12",
  });
});

test("The client's Content-Type describes the body, unless it is invalid, or would make the body the event", () => {
  const type = (sent: string) => eventOf({ "X-HTTP-CONTENT-TYPE": sent }).headers["content-type"];
  expect(type('text/plain; charset="utf-8"')).toBe('text/plain; charset="utf-8"');
  const own = ["application/cloudevents+json", "Application/CloudEvents-batch+json; charset=utf-8"];
  for (const bad of ["", " text/plain", "text/plain\r\nx: y", "text/é", ...own])
    expect(type(bad)).toBe("application/octet-stream");
});

test.each([
  ["Mozilla/5.0 (X11; Linux)", "Mozilla/5.0 (X11; Linux)"],
  ['a "quoted" value', 'a "quoted" value'],
  ["100 %", "100 %25"],
  ["a\r\nb: c", "a%0D%0Ab: c"],
  [" padded ", "%20padded%20"],
  ["naïve €😀", "na%C3%AFve %E2%82%AC%F0%9F%98%80"],
  ["\x00\x7f", "%00%7F"],
])("The metadata %j is the header %j, which percent-decoding turns back", (value, header) => {
  expect(eventOf({ "X-HTTP-NOTE": value }).headers["X-HTTP-NOTE"]).toBe(header);
  expect(decodeURIComponent(header)).toBe(value);
});

test("No metadata sets a header that describes the request", () => {
  const { headers } = eventOf({
    host: "evil",
    "ce-id": "13",
    "Content-Length": "1",
    "X-A B": "c",
    "X-": "d",
  });
  expect(headers["ce-id"]).toBe("12");
  for (const name of ["host", "Content-Length", "X-A B", "X-"]) expect(headers).not.toHaveProperty([name]);
});
