import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Event, GetCallResponse, Payment } from "../../gen/jobgate/v1/operator_pb.ts";

/** View and filters that the address names: `#/jobs?state=dead`. */
export interface Route {
  /** Parts between slashes: the view, and what it shows. */
  readonly path: readonly string[];
  readonly filters: Filters;
}

/** Filters of a list by name. A filter that is not set is empty. */
export type Filters = Readonly<Record<string, string | undefined>>;

/** An addition of a part to the page: a view, or a panel in other views. */
export interface PartView {
  /** Name of its view in addresses. */
  readonly path: string;
  /** Title of its view in the menu. */
  readonly title?: string;
  readonly after?: string;
  readonly View?: FunctionComponent<{ filters: Filters }>;
  /** Shows the part's facts about one JobCall, below all other facts. */
  readonly BelowCall?: FunctionComponent<GetCallResponse>;
  /** Shows the part's facts about the payment of one JobCall, below the payment. */
  readonly BelowPayment?: FunctionComponent<GetCallResponse>;
  /** Shows the part's state of a payment, beside the state of the payment. */
  readonly OfPayment?: FunctionComponent<Payment>;
  /** Component that is shown beside every view. */
  readonly Anywhere?: FunctionComponent;
  /** Component that is shown above every view. */
  readonly Banner?: FunctionComponent;
  /** A hook that returns trouble that the operator should decide about or repair, each with the address of its view. */
  readonly useAttention?: () => readonly Attention[];
  /** Shown with the name of a job, where one job is shown. */
  readonly OfJob?: FunctionComponent<{ readonly jobId: bigint }>;
  /** Describes an event that only the part knows. */
  readonly describeEvent?: (event: Event) => PartEvent | undefined;
}

/** An event in words. */
export interface EventText {
  /** Stage that colours the state. */
  readonly stage: "waiting" | "running" | "done" | "dead" | "unsure";
  readonly state: string;
  readonly detail: string;
  /** Progress that the runner reported. */
  readonly percent?: number;
}

/** An event that only a part knows, in words. */
export interface PartEvent extends EventText {
  /** First part of the keys of the queries whose answers the event changes. */
  readonly topic: string;
  /** Text to announce, if the event needs attention. */
  readonly announcement?: string | undefined;
}

/** Trouble that the operator should decide about or repair. */
export interface Attention {
  /** Address of the view that shows it. */
  readonly to: string;
  readonly text: string;
}

/** Returns the address of a view. Empty filters are left out. */
export function href(path: string, filters: Filters = {}): string {
  const set = Object.entries(filters).filter((entry): entry is [string, string] => Boolean(entry[1]));
  return `#/${path}${set.length === 0 ? "" : `?${new URLSearchParams(set)}`}`;
}

/** Opens a view, to which Back returns. */
export function open(path: string, filters: Filters): void {
  location.hash = href(path, filters);
}

/** Returns the current route, and the new route after each change of the address. */
export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const read = () => setHash(location.hash);
    window.addEventListener("hashchange", read);
    // The address may have changed before the listener was added.
    read();
    return () => window.removeEventListener("hashchange", read);
  }, []);
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/"), filters: Object.fromEntries(new URLSearchParams(query)) };
}
