/** JSON forms of the operator API's messages, derived from the generated types. */
import type { Message } from "@bufbuild/protobuf";
import type { Duration, Timestamp } from "@bufbuild/protobuf/wkt";
import type * as operator from "../gen/jobgate/v1/operator_pb.ts";

type Snake<Name extends string> = Name extends `${infer Head}${infer Tail}`
  ? `${Head extends Lowercase<Head> ? Head : `_${Lowercase<Head>}`}${Snake<Tail>}`
  : "";

/** 64-bit integers, timestamps, durations and enums are strings. */
type Json<T> = T extends bigint | Timestamp | Duration | Uint8Array
  ? string
  : T extends number
    ? number extends T
      ? number
      : string
    : T extends string | boolean | undefined
      ? T
      : T extends readonly (infer Item)[]
        ? Json<Item>[]
        : T extends Message
          ? JsonMessage<T>
          : T;

type JsonMessage<T> = {
  [K in keyof T as K extends "$typeName" | "$unknown" | "what" ? never : Snake<K & string>]: Json<T[K]>;
} & (T extends { what: infer What } ? JsonOneof<What> : unknown);

/** Exactly one field is present. */
type JsonOneof<What> = {
  [Name in What extends { case: infer Case extends string } ? Case : never as Snake<Name>]?: Json<
    Extract<What, { case: Name }> extends { value: infer Value } ? Value : never
  >;
};

export type Configuration = NonNullable<Json<operator.GetConfigurationResponse>["configuration"]>;
export type DeadLetter = Json<operator.DeadLetter>;
export type Event = Json<operator.Event>;
export type Info = Json<operator.GetInfoResponse>;
export type Payment = Json<operator.Payment>;
export type PaymentDecided = Json<operator.Event_PaymentDecided>;
export type Rate = Json<operator.Rate>;
export type Revenue = Json<operator.Revenue>;
export type Runner = Json<operator.Runner>;
export type TailMessage = Json<operator.TailResponse>;
export type Totals = Json<operator.GetTotalsResponse>;

/** Request and answer of each method the page calls. */
export interface Methods {
  GetInfo: [request: Record<string, never>, answer: Info];
  GetTotals: [request: Record<string, never>, answer: Totals];
  GetConfiguration: [request: Record<string, never>, answer: Json<operator.GetConfigurationResponse>];
  ListPayments: [
    request: { state: string; page_size: number; page_token: string },
    answer: Json<operator.ListPaymentsResponse>,
  ];
  ListDeadLetters: [request: { page_size: number }, answer: Json<operator.ListDeadLettersResponse>];
  GetDeadLetter: [request: { call_id: string }, answer: Json<operator.GetDeadLetterResponse>];
  RetryDeadLetters: [request: { call_ids: string[] }, answer: Json<operator.RetryDeadLettersResponse>];
  DropDeadLetters: [request: { call_ids: string[] }, answer: Json<operator.DropDeadLettersResponse>];
  ListRates: [request: Record<string, never>, answer: Json<operator.ListRatesResponse>];
  ListRunners: [request: Record<string, never>, answer: Json<operator.ListRunnersResponse>];
  GetRevenue: [request: { since: string; bucket: string }, answer: Json<operator.GetRevenueResponse>];
}
