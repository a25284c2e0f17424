import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { announce } from "../shared/announce.js";
import { startTheme } from "../shared/theme.js";

/** Cycles through the themes. */
export function ThemeButton() {
  useEffect(startTheme, []);
  return <button type="button" id="theme" class="icon" />;
}

/** A question before an action that cannot be undone, or that has large effects. */
interface Question {
  readonly title: string;
  readonly text: string;
  /** Name of the button that agrees. */
  readonly action: string;
  readonly isDangerous?: boolean;
  /** True if the dialog asks for the operator's name and a note. */
  readonly isSigned?: boolean;
  readonly onAgree: (signature: Signature) => void;
}

/** Name of the operator who decides, and the note. */
interface Signature {
  readonly by: string;
  readonly note: string;
}

/** Name that signed last, until the page is left. */
let lastName = "";

/** Returns a function that asks a question, and the dialog to show. */
export function useConfirm(): [ask: (question: Question) => void, dialog: ComponentChildren] {
  const [asked, setAsked] = useState<{ readonly id: number; readonly question: Question }>();
  const ask = (question: Question) => setAsked((before) => ({ id: (before?.id ?? 0) + 1, question }));
  if (asked === undefined) return [ask, null];
  const close = (signature: Signature | undefined) => {
    // Browsers send `close` with a delay, during which another question may have been opened.
    setAsked((now) => (now === asked ? undefined : now));
    if (signature !== undefined) asked.question.onAgree(signature);
  };
  return [ask, <Confirm key={asked.id} {...asked.question} onClose={close} />];
}

function Confirm(options: Question & { onClose: (signature: Signature | undefined) => void }) {
  const { title, text, action, isDangerous = false, isSigned = false, onClose } = options;
  const [by, setBy] = useState(lastName);
  const [note, setNote] = useState("");
  const end = (value: string) => {
    if (value === "yes") lastName = by;
    onClose(value === "yes" ? { by, note } : undefined);
  };
  return (
    <Dialog title={title} onClose={end}>
      {(close) => (
        <form
          class="fields"
          onSubmit={(event) => {
            event.preventDefault();
            close("yes");
          }}
        >
          <p>{text}</p>
          {isSigned && (
            <>
              <Field label="Your name" value={by} maxLength={200} onChange={setBy} />
              <Field label="Reason" value={note} maxLength={2000} onChange={setNote} />
            </>
          )}
          <p class="tools">
            <button type="button" onClick={() => close("no")} autofocus={!isSigned}>
              Cancel
            </button>
            <button type="submit" class={isDangerous ? "danger solid" : "primary"}>
              {action}
            </button>
          </p>
        </form>
      )}
    </Dialog>
  );
}

/** A line of text that must not be empty. */
function Field(options: {
  readonly label: string;
  readonly value: string;
  readonly maxLength: number;
  readonly onChange: (value: string) => void;
}) {
  const { label, value, maxLength, onChange } = options;
  return (
    <label>
      <span>{label}</span>
      <input
        required
        pattern=".*\S.*"
        {...{ value, maxLength }}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
    </label>
  );
}

/** Error of an action; nothing while it is empty. */
export function Problem({ text }: { text: string }) {
  return (
    <p class="problem" role="alert">
      {text}
    </p>
  );
}

/**
 * A modal dialog, open while it is shown. When it closes, the browser returns the focus to the element that had it. Escape closes the
 * dialog with an empty value.
 */
function Dialog(options: {
  readonly title: string;
  readonly onClose: (value: string) => void;
  readonly children: (close: (value: string) => void) => ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby="dialog-title"
      onClose={(event) => options.onClose(event.currentTarget.returnValue)}
    >
      <h2 id="dialog-title">{options.title}</h2>
      {options.children((value) => dialog.current?.close(value))}
    </dialog>
  );
}

/** One column of a table. */
export interface Column<Item> {
  /** Heading; shown beside each value on narrow screens, where rows become cards. */
  readonly label: string;
  readonly class?: string;
  readonly cell: (item: Item) => ComponentChildren;
}

/** A table, or what to read instead while it has no rows. */
export function Table<Item>(options: {
  /** Heading for screen readers. */
  readonly caption: string;
  /** Undefined until the first answer. */
  readonly items: readonly Item[] | undefined;
  readonly keyOf: (item: Item) => string;
  readonly columns: readonly Column<Item>[];
  readonly empty: ComponentChildren;
}) {
  const { caption, items, keyOf, columns, empty } = options;
  if (items === undefined) return <p class="empty">…</p>;
  if (items.length === 0) return <div class="empty">{empty}</div>;
  // The roles are explicit, because browsers drop implicit roles when CSS lays table parts out as blocks.
  return (
    <table role="table">
      <caption class="unseen">{caption}</caption>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map((column) => (
            <th role="columnheader" scope="col" class={column.class} key={column.label}>
              {column.label}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {items.map((item) => (
          <tr role="row" key={keyOf(item)}>
            {columns.map((column) => (
              <td role="cell" data-label={column.label} class={column.class} key={column.label}>
                <span class="value">{column.cell(item)}</span>
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Explains an empty list, with the command to run next. */
export function Hint({ children, command }: { children: ComponentChildren; command?: string | undefined }) {
  return (
    <>
      <p class="muted">{children}</p>
      {command !== undefined && (
        <p class="command">
          <code>{command}</code>
          <button
            type="button"
            // Browsers offer no clipboard to pages without TLS, except to pages of this machine.
            hidden={navigator.clipboard === undefined}
            onClick={() => void navigator.clipboard.writeText(command).then(() => announce("Copied."))}
          >
            Copy
          </button>
        </p>
      )}
    </>
  );
}
