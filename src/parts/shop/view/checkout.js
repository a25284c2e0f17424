/** @import { Requirements, Wallet } from "../../../page/tools/chains.ts" */
/** @import { Answer, Job, Option } from "./data.js" */
/** @import { InputForm } from "./input-form.js" */
/** @import { Outcome, Purchase } from "./purchase.js" */
import { byId, h } from "../../../page/shared/dom.js";
import { chainsOf, isTestNetwork, namespaceOf, networkName } from "./chains.js";
import { endStep, explain, explainStep, showChoices, showStep } from "./checkout-view.js";
import { isPermit2 } from "./evm-payment.js";
import { InputMissing } from "./input-form.js";
import { followPrice } from "./live-price.js";
import { tokenAmount } from "./money.js";
import { paymentHeader } from "./payment.js";

/** Error that stops a purchase. The message is for the buyer. */
class Stopped extends Error {}

/** Panel in which the buyer pays for a job. */
export class Checkout {
  #purchase;
  #form;
  #onBought;
  /** @type {readonly Option[]} */
  #options;
  /** The job also has offers that only programs can pay. */
  #isForPrograms;
  #isMetered;
  /** Wallets by the namespace of the networks that they pay on. @type {Map<string, readonly Wallet[]>} */
  #wallets = new Map();
  #button = byId("pay", HTMLButtonElement);
  #isBusy = false;
  /** True once the buyer has chosen a token. */
  #hasChosen = false;
  /** Reason why this page cannot buy the job. @type {string | undefined} */
  #notByPage;

  /**
   * @param {object} parts
   * @param {Job} parts.job
   * @param {Purchase} parts.purchase
   * @param {InputForm} parts.form
   * @param {() => void} parts.onBought is called once the purchase has a call
   */
  constructor({ job, purchase, form, onBought }) {
    this.#purchase = purchase;
    this.#form = form;
    this.#onBought = onBought;
    const exact = job.settlement_options.filter(({ scheme }) => scheme === "exact");
    this.#options = exact.filter(({ network }) => chainsOf(network) !== undefined);
    this.#isForPrograms = this.#options.length < job.settlement_options.length;
    this.#isMetered = exact.length < job.settlement_options.length;
    this.#notByPage = job.not_by_page;
    this.#showOptions();
    if (job.price_range !== undefined) followPrice(form, purchase, (accepts) => this.#showOffers(accepts));
    for (const namespace of new Set(this.#options.map(({ network }) => namespaceOf(network)))) {
      chainsOf(namespace)?.findWallets((wallets) => {
        this.#wallets.set(namespace, wallets);
        this.#preferPayable();
        this.#showWallets();
      });
    }
    this.#showWallets();
    byId("order", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#run(() => (this.#purchase.kept?.payment === undefined ? this.#buy() : this.#send()));
    });
    // The button is disabled until now, because the browser itself would send the form.
    this.#button.disabled = false;
  }

  /** Resumes a payment that was signed before the page was loaded. */
  resume() {
    const { kept, body } = this.#purchase;
    if (kept?.payment === undefined) return;
    if (body !== undefined) return void this.#run(() => this.#send());
    this.#showProblem(
      "A payment was signed on this page before, and it is not known whether it arrived. Choose the same file again, and send the same payment. You never pay twice.",
    );
    this.#showButton();
  }

  /** Hides the controls of a purchase that is done, or shows them for the next one. @param {boolean} isDone */
  setDone(isDone) {
    for (const id of ["order", "offers", "wallets", "pay", "pay-note"]) byId(id, HTMLElement).hidden = isDone;
    if (!isDone) byId("steps", HTMLElement).hidden = true;
    this.#showButton();
  }

  /** @param {() => Promise<void>} deed */
  async #run(deed) {
    if (this.#isBusy) return;
    this.#isBusy = true;
    this.#showProblem("");
    this.#showButton();
    try {
      await deed();
    } catch (error) {
      endStep("failed");
      if (error instanceof InputMissing) this.#form.showProblem(error.message);
      else if (error instanceof Stopped) this.#showProblem(error.message);
      else
        this.#showProblem(
          `The seller cannot be reached: ${error instanceof Error ? error.message : error}. Nothing was paid.`,
        );
    } finally {
      this.#isBusy = false;
      this.#showButton();
    }
  }

  /** Checks the input, has the payment signed, and sends it. */
  async #buy() {
    if (this.#notByPage !== undefined) throw new Stopped(this.#notByPage);
    showStep("check");
    const { bytes, contentType } = await this.#form.read();
    this.#purchase.begin(bytes, contentType);
    const outcome = await this.#purchase.ask();
    if (outcome.kind !== "offered") return this.#finish(outcome);
    const { required, nowSecs } = outcome;
    const option = this.#chosenOption();
    const accepted = this.#offerFor(option, required.accepts);

    showStep("connect");
    const wallet = this.#chosenWallet(option);
    const sign = await inWallet(wallet.connect(accepted, option));

    showStep("sign");
    const payload = await inWallet(sign(nowSecs));
    const identifier = this.#purchase.kept?.identifier ?? "";
    const header = paymentHeader(required, { accepted, payload, identifier });
    this.#purchase.sign(header, tokenAmount(option, option.amount));
    await this.#send();
  }

  /** Sends the payment that was signed, as often as it takes. */
  async #send() {
    if (this.#purchase.body === undefined) this.#purchase.supply((await this.#form.read()).bytes);
    showStep("settle");
    await this.#finish(await this.#purchase.pay(explainStep));
  }

  /** @param {Outcome} outcome */
  async #finish(outcome) {
    switch (outcome.kind) {
      case "bought":
        endStep("done");
        this.#onBought();
        return;
      case "undecided":
        throw new Stopped(
          `${outcome.words} It is not decided yet. Your payment is kept in this tab: send it again later.`,
        );
      case "refused":
        return this.#refused(outcome.status, outcome.answer);
      case "offered":
        throw new Stopped("The seller asks for a payment again. Nothing was paid: try again.");
    }
  }

  /** @param {number} status @param {Answer} answer */
  #refused(status, { code, error, charged, retryable, invalid, transaction }) {
    const hadPayment = this.#purchase.kept?.payment !== undefined;
    // A payment that can succeed later is sent again unchanged. Any other refusal needs a new signature.
    if (hadPayment && !retryable) this.#purchase.dropPayment();
    if (code === "invalid_input" && invalid !== undefined) {
      this.#form.showProblems(invalid);
      throw new Stopped("The job does not take this input: correct what is marked. Nothing was paid.");
    }
    const words = error ?? `The seller answered with status ${status}.`;
    const found = transaction === undefined ? "" : ` Transaction: ${transaction}.`;
    const money =
      charged === false || !hadPayment ? "Nothing was paid." : "It is not known whether money moved.";
    const ending = words.includes("othing was charged") ? "" : ` ${money}`;
    throw new Stopped(`${explain(code) ?? ""}${words}${found}${ending}`);
  }

  /** @param {Option} option @param {readonly Requirements[]} accepts */
  #offerFor(option, accepts) {
    const offer = accepts.find((one) => isFor(one, option));
    if (offer === undefined) {
      throw new Stopped(
        `The seller no longer takes ${option.symbol} on ${networkName(option.network)}. Load this page again. Nothing was paid.`,
      );
    }
    if (offer.amount === option.amount) return offer;
    const changed = { ...option, amount: offer.amount };
    this.#options = this.#options.map((known) => (known === option ? changed : known));
    this.#showOptions();
    throw new Stopped(
      `The price of this request is ${tokenAmount(changed, changed.amount)}. Nothing was paid: press the button again if that is fine.`,
    );
  }

  /** Shows what the input in the form costs. @param {readonly Requirements[]} accepts */
  #showOffers(accepts) {
    if (this.#isBusy) return;
    const place = byId("price", HTMLElement);
    if (accepts.length === 0) {
      place.textContent = "The price depends on the input";
      return;
    }
    this.#options = this.#options.map((option) => {
      const { amount = option.amount } = accepts.find((offer) => isFor(offer, option)) ?? {};
      return { ...option, amount };
    });
    this.#showOptions();
    const option = this.#options[0] && this.#chosenOption();
    if (option !== undefined) place.textContent = tokenAmount(option, option.amount);
  }

  #chosenOption() {
    const index = Number(
      /** @type {HTMLInputElement | null} */ (document.querySelector("#offers :checked"))?.value ?? 0,
    );
    const option = this.#options[index];
    if (option === undefined && this.#isMetered)
      throw new Stopped("This job is metered, which this page cannot do. Buy it from a program.");
    if (option === undefined && this.#isForPrograms)
      throw new Stopped("This page has no wallets for the job's networks. Buy this job from a program.");
    if (option === undefined) throw new Stopped("This job has no price now. Load the page again later.");
    return option;
  }

  /** @param {Option} option */
  #chosenWallet(option) {
    const id = /** @type {HTMLInputElement | null} */ (document.querySelector("#wallets :checked"))?.value;
    const wallet = this.#walletsFor(option).find((known) => known.id === id);
    if (wallet === undefined)
      throw new Stopped(
        `There is no wallet for ${networkName(option.network)} in this browser. Install one, unlock it, and load this page again.`,
      );
    return wallet;
  }

  #showOptions() {
    const items = this.#options.map((option, i) => ({
      value: String(i),
      label: tokenAmount(option, option.amount),
      note: `${networkName(option.network)}${isPermit2(option) ? ", by Permit2" : ""}`,
      mark: isTestNetwork(option.network) && h("span", { class: "pill", "data-tone": "warn" }, "test money"),
    }));
    showChoices(byId("offers", HTMLFieldSetElement), "Pay with", items);
    for (const input of document.querySelectorAll("#offers input"))
      input.addEventListener("change", () => {
        this.#hasChosen = true;
        this.#showWallets();
        this.#showButton();
      });
    this.#showButton();
  }

  /** Chooses a token that the buyer has a wallet for, unless the buyer has chosen one. */
  #preferPayable() {
    const index = this.#options.findIndex((option) => this.#walletsFor(option).length > 0);
    const inputs = byId("offers", HTMLFieldSetElement).querySelectorAll("input");
    if (this.#hasChosen || this.#walletsFor(this.#chosenOption()).length > 0) return;
    for (const [i, input] of inputs.entries()) input.checked = i === index;
    this.#showButton();
  }

  /** Returns the wallets that can pay an option. @param {Option | undefined} option */
  #walletsFor(option) {
    return (option && this.#wallets.get(namespaceOf(option.network))) ?? [];
  }

  #showWallets() {
    const option = this.#options[0] && this.#chosenOption();
    const wallets = this.#walletsFor(option);
    const items = wallets.map(({ id, name, icon }) => ({
      value: id,
      label: name,
      icon: icon && h("img", { src: icon, alt: "", width: 24, height: 24 }),
    }));
    const place = byId("wallets", HTMLFieldSetElement);
    showChoices(place, "Wallet", items);
    if (wallets.length > 0) return;
    place.append(
      h(
        "p",
        { class: "muted small" },
        `No wallet${option === undefined ? "" : ` for ${networkName(option.network)}`} is found in this browser. Install one that is a browser extension, or open this page in the browser of a wallet app.`,
      ),
    );
  }

  #showButton() {
    const isKept = this.#purchase.kept?.payment !== undefined && this.#purchase.kept.call === undefined;
    const option = this.#options[0] && this.#chosenOption();
    const missing = this.#isForPrograms ? "Sold to programs only" : "Not for sale now";
    const amount = option ? `Pay ${tokenAmount(option, option.amount)}` : missing;
    this.#button.textContent = this.#isBusy ? "Working …" : isKept ? "Send the same payment again" : amount;
    this.#button.setAttribute("aria-disabled", String(this.#isBusy || option === undefined));
    const giveUp = h(
      "button",
      { type: "button", class: "quiet", click: () => this.#giveUp() },
      "Forget this payment",
    );
    const actions = byId("problem-actions", HTMLElement);
    actions.hidden = this.#isBusy || !isKept;
    actions.replaceChildren(giveUp);
    byId("pay-note", HTMLElement).textContent = isKept
      ? `A payment of ${this.#purchase.kept?.paid ?? "this job"} is signed. Sending it again never pays twice.`
      : "You sign a payment of exactly this amount. You need no coins for network fees.";
  }

  /** Gives up a signed payment. The id of the purchase stays, so that another payment for the same input finds the first one if it arrived. */
  #giveUp() {
    this.#purchase.dropPayment();
    this.#showProblem("");
    byId("steps", HTMLElement).hidden = true;
    this.#showButton();
    this.#button.focus();
  }

  /** @param {string} text */
  #showProblem(text) {
    const place = byId("problem", HTMLElement);
    place.hidden = text === "";
    place.textContent = text;
  }
}

/** Waits for a wallet, and turns its errors into messages for the buyer. @template T @param {Promise<T>} answer */
async function inWallet(answer) {
  try {
    return await answer;
  } catch (error) {
    throw new Stopped(error instanceof Error ? error.message : String(error));
  }
}

/** Reports whether an offer takes an option's token in the option's way. @param {Requirements} offer @param {Option} option */
function isFor(offer, option) {
  return (
    offer.scheme === "exact" &&
    offer.network === option.network &&
    offer.asset.toLowerCase() === option.asset.toLowerCase() &&
    isPermit2(offer) === isPermit2(option)
  );
}
