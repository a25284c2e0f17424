/** @import { Requirements } from "../../../page/tools/chains.ts" */
/** @import { InputForm } from "./input-form.js" */
/** @import { Purchase } from "./purchase.js" */
import { byId } from "../../../page/shared/dom.js";

/** Time without a change of the form after which the price is requested. */
const QUIET_MS = 400;

/**
 * Requests the price of the input in the form, at once and after each change. An incomplete input has no price.
 * @param {Pick<InputForm, "peek">} form
 * @param {Pick<Purchase, "offersFor">} purchase
 * @param {(offers: readonly Requirements[]) => void} show
 */
export function followPrice(form, purchase, show) {
  /** @type {number | undefined} */
  let timer;
  let changes = 0;
  const ask = async () => {
    const asked = ++changes;
    const offers = await form
      .peek()
      .then((input) => purchase.offersFor(input))
      .catch(() => []);
    // The response for an earlier input can arrive later.
    if (asked === changes) show(offers);
  };
  byId("order", HTMLFormElement).addEventListener("input", () => {
    changes += 1;
    clearTimeout(timer);
    timer = setTimeout(ask, QUIET_MS);
  });
  void ask();
}
