import { toJson } from "@bufbuild/protobuf";
import { ConfigurationSchema } from "../../../gen/jobgate/v1/configuration_pb.ts";
import type { Rate } from "../../../gen/jobgate/v1/operator_pb.ts";
import { countText, durationText } from "../../../page/shared/format.js";
import { useConfiguration, useInfo, useRates } from "./client.ts";
import { Hint, Table } from "./controls.tsx";
import { Ago, Badge, Facts } from "./format.tsx";

/** Rates, listeners, and the configuration without secrets. */
export function Settings() {
  const { data: info } = useInfo();
  const { data } = useConfiguration();
  const configuration =
    data?.configuration &&
    toJson(ConfigurationSchema, data.configuration, { useProtoFieldName: true, alwaysEmitImplicit: true });
  return (
    <>
      <div class="columns">
        <Rates />
        <section class="panel" aria-labelledby="listeners">
          <h2 id="listeners">Listeners</h2>
          <Table
            caption="Listeners"
            items={info?.listeners}
            keyOf={({ name }) => name}
            empty={<Hint>Nothing listens.</Hint>}
            columns={[
              { label: "Listener", cell: ({ name }) => name },
              { label: "Address", class: "wide", cell: ({ address }) => <span class="mono">{address}</span> },
            ]}
          />
        </section>
      </div>
      <section class="panel" aria-labelledby="configuration">
        <div class="panel-head">
          <h2 id="configuration">Configuration</h2>
          <p class="muted">defaults and reloads included, without secrets</p>
        </div>
        <div class="groups">{configuration && <Group name="service" values={configuration} />}</div>
      </section>
    </>
  );
}

/** Accepted tokens with their rates. */
function Rates() {
  const { data } = useRates();
  return (
    <section class="panel" aria-labelledby="rates">
      <h2 id="rates">Rates</h2>
      <Table
        caption="Rates of the accepted tokens"
        items={data?.rates}
        keyOf={({ network, asset, source, rate }) => `${network} ${asset} ${source} ${rate}`}
        empty={<Hint>No tokens are accepted.</Hint>}
        columns={[
          {
            label: "Token",
            cell: ({ symbol, network, asset }) => (
              <>
                <span title={asset}>{symbol}</span> <span class="muted nowrap">{network}</span>
              </>
            ),
          },
          { label: "Per native unit", class: "number", cell: ({ rate }) => rate || "–" },
          {
            label: "Source",
            cell: ({ source }) => (source === "none" ? "none: for prices in its own currency" : source),
          },
          { label: "State", class: "wide", cell: (rate) => <RateState {...rate} /> },
        ]}
      />
    </section>
  );
}

function RateState({ usable, asOf, problem }: Rate) {
  return (
    <>
      <Badge stage={usable ? "done" : "dead"}>{usable ? "usable" : "not usable"}</Badge>{" "}
      {asOf && (
        <span class="muted">
          <Ago time={asOf} suffix=" old" />
        </span>
      )}{" "}
      {problem}
    </>
  );
}

type Json = ReturnType<typeof toJson>;

/** The values of one table of the configuration, and its tables after it. */
function Group({ name, values }: { name: string; values: Json }) {
  const entries = Object.entries(values ?? {}) as [string, Json][];
  const tables = entries.flatMap(([key, value]) =>
    (Array.isArray(value) ? value : [value]).filter(isTable).map((table) => ({ key, table })),
  );
  const facts = entries
    .filter(([, value]) => !isTable(Array.isArray(value) ? (value[0] ?? null) : value))
    .map(([key, value]) => [key, <span class="mono">{valueText(value)}</span>] as const);
  return (
    <>
      <section class="group">
        <h3>{name.replaceAll("_", " ")}</h3>
        <Facts facts={facts} />
      </section>
      {tables.map(({ key, table }, index) => (
        <Group key={`${key} ${index}`} name={key} values={table} />
      ))}
    </>
  );
}

function isTable(value: Json): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function valueText(value: Json): string {
  if (Array.isArray(value)) return value.map(valueText).join(", ") || "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return countText(value);
  const text = String(value);
  if (/^\d+(\.\d+)?s$/.test(text)) return durationText(text);
  return text || "–";
}
