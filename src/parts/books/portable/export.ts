/** A movement of the API. */
interface Movement {
  readonly time?: { readonly seconds: bigint; readonly nanos: number } | undefined;
  readonly kind: number;
  readonly network: string;
  readonly token: string;
  readonly asset: string;
  readonly transaction: string;
  readonly block: string;
  readonly baseUnits: string;
  readonly amount: string;
  readonly account: string;
  readonly counterparty: string;
  readonly callId?: bigint | undefined;
  readonly serviceId?: bigint | undefined;
  readonly jobIndex?: number | undefined;
  readonly price: string;
  readonly currency: string;
  readonly rate: string;
}

/** The API's number for each kind of movement. */
type Kinds = Readonly<Record<string, number>>;

/** Columns of the books as CSV. The command and the page write the same bytes. */
const COLUMNS: Readonly<Record<string, (movement: Movement, kinds: Kinds) => string>> = {
  time: ({ time }) =>
    time === undefined ? "" : new Date(Number(time.seconds) * 1_000 + time.nanos / 1e6).toISOString(),
  kind: ({ kind }, kinds) =>
    kind === 0 ? "" : (Object.keys(kinds).find((name) => kinds[name] === kind) ?? "").toLowerCase(),
  network: ({ network }) => inert(network),
  token: ({ token }) => inert(token),
  asset: ({ asset }) => inert(asset),
  transaction: ({ transaction }) => inert(transaction),
  block: ({ block }) => block,
  base_units: ({ baseUnits }) => baseUnits,
  amount: ({ amount }) => amount,
  account: ({ account }) => inert(account),
  counterparty: ({ counterparty }) => inert(counterparty),
  call_id: ({ callId }) => String(callId ?? ""),
  service_id: ({ serviceId }) => String(serviceId ?? ""),
  job_index: ({ jobIndex }) => String(jobIndex ?? ""),
  price: ({ price }) => price,
  currency: ({ currency }) => currency,
  rate: ({ rate }) => rate,
};

/** First line of the books as CSV. */
export const csvHeader = (): string => csvLine(Object.keys(COLUMNS));

/** Line of a movement in the books as CSV. */
export const csvOf = (movement: Movement, kinds: Kinds): string =>
  csvLine(Object.values(COLUMNS).map((cell) => cell(movement, kinds)));

/** Line of RFC 4180. */
function csvLine(cells: readonly string[]): string {
  const quoted = cells.map((cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell));
  return `${quoted.join(",")}\r\n`;
}

/** Keeps spreadsheets from running text as a formula. */
function inert(text: string): string {
  return /^[=+\-@\t\r\n]/.test(text) ? `'${text}` : text;
}
