import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Rate } from "../../../gen/jobgate/v1/operator_pb.ts";
import { useConfiguration, useInfo, useRates } from "../../../page/tools/client.ts";
import { Hint, Table } from "../../../page/tools/controls.tsx";
import { Ago, Badge, Facts, NetworkName } from "../../../page/tools/format.tsx";

/** Rates, listeners, and the configuration without secrets. */
export function Settings() {
  const { data: info } = useInfo();
  const { data } = useConfiguration();
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
        <div class="groups">{data?.configuration && <Group name="" table={data.configuration} />}</div>
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
                <span title={asset}>{symbol}</span>{" "}
                <span class="muted nowrap">
                  <NetworkName network={network} />
                </span>
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

/** Shows the values of one table of the configuration. The tables within it follow, each under its path in the file. */
function Group({ name, table }: { name: string; table: JsonObject }) {
  const entries = Object.entries(table);
  const tables = entries.flatMap(([key, value]) => {
    const path = name === "" ? key : `${name}.${key}`;
    if (isTable(value)) return [{ path, table: value }];
    return isTableList(value) ? value.map((item, i) => ({ path: `${path}[${i}]`, table: item })) : [];
  });
  const facts = entries
    .filter(([, value]) => !isTable(value) && !isTableList(value))
    .map(([key, value]) => [key, <span class="mono">{valueText(value)}</span>] as const);
  return (
    <>
      {facts.length > 0 && (
        <section class="group">
          <h3>{name || "service"}</h3>
          <Facts facts={facts} />
        </section>
      )}
      {tables.map(({ path, table }) => (
        <Group key={path} name={path} table={table} />
      ))}
    </>
  );
}

function isTable(value: JsonValue): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isTableList(value: JsonValue): value is JsonObject[] {
  return Array.isArray(value) && value.length > 0 && value.every(isTable);
}

function valueText(value: JsonValue): string {
  if (Array.isArray(value)) return value.map(valueText).join(", ") || "none";
  return isTable(value)
    ? Object.entries(value)
        .map(([key, item]) => `${key} = ${valueText(item)}`)
        .join(", ")
    : String(value);
}
