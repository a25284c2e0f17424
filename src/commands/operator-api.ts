import { Argument, type Command, InvalidArgumentError, Option } from "commander";
import { type BindAddress, localUrl, parseBindAddress } from "../core/network-address.ts";
import {
  createOperatorClient,
  type OperatorAddress,
  type OperatorClient,
  operatorFailure,
} from "./operator-client.ts";
import { configOption } from "./options.ts";
import { readConfig } from "./read-config.ts";
import { Refusal } from "./refusal.ts";

export interface OperatorOptions {
  readonly config: string;
  /** Checked in the action, because commander quotes what it refuses, and people put passwords into URLs. */
  readonly target?: string;
}

/** The options of every command that asks a running jobgate. */
export function addOperatorOptions(command: Command): Command {
  return command
    .addOption(configOption())
    .addOption(
      new Option(
        "--target <address>",
        "host:port, unix:PATH or URL of the operator listener, instead of the configuration file's",
      ).env("JOBGATE_TARGET"),
    )
    .addHelpText(
      "after",
      "\nThe token is operator.token of the configuration file, or JOBGATE_OPERATOR_TOKEN if that is set.",
    );
}

/** A call id as an argument. */
export const callIdArgument = () => new Argument("<id>", "call id").argParser(parseCallId);

/** Call ids as arguments, one or more. */
export const callIdsArgument = () =>
  new Argument("<id...>", "call ids").argParser((value: string, previous: bigint[] | undefined) => [
    ...(previous ?? []),
    parseCallId(value),
  ]);

function parseCallId(value: string): bigint {
  if (!/^[1-9][0-9]{0,15}$/.test(value)) throw new InvalidArgumentError("Expected a call id.");
  return BigInt(value);
}

/**
 * Asks a running jobgate.
 * @throws Refusal when it cannot be reached, or refuses
 */
export async function askOperator<T>(
  options: OperatorOptions,
  ask: (client: OperatorClient) => Promise<T>,
): Promise<T> {
  const { address, token } = await findOperator(options);
  try {
    return await ask(createOperatorClient({ address, ...(token === undefined ? {} : { token }) }));
  } catch (error) {
    const failure = operatorFailure(error);
    if (failure === undefined) throw error;
    const where = "url" in address ? address.url : `unix:${address.socketPath}`;
    switch (failure.kind) {
      case "unreachable":
        throw new Refusal([
          `No jobgate answers at ${where}: ${failure.message}`,
          "Is `jobgate serve` running, and is this the address that it printed for operator?",
        ]);
      case "unauthenticated":
        throw new Refusal([
          `${where} refuses the token: ${failure.message}`,
          "Set JOBGATE_OPERATOR_TOKEN, or point -c at the configuration that jobgate was started with.",
        ]);
      case "not_found":
        throw new Refusal([failure.message]);
      case "refused":
        throw new Refusal([`${where}: ${failure.message}`]);
    }
  }
}

async function findOperator(
  options: OperatorOptions,
): Promise<{ address: OperatorAddress; token: string | undefined }> {
  const token = process.env.JOBGATE_OPERATOR_TOKEN || undefined;
  if (options.target !== undefined) return { address: parseTarget(options.target), token };
  const { operator } = (await readConfig(options)).config;
  if (operator.bindAddress.kind === "tcp" && operator.bindAddress.port === 0) {
    throw new Refusal([
      `${options.config}: operator.bind_address has port 0; say which port it got with --target`,
    ]);
  }
  return { address: toAddress(operator.bindAddress), token: token ?? operator.token };
}

function parseTarget(value: string): OperatorAddress {
  if (/^https?:\/\//.test(value) && URL.canParse(value)) {
    const { username, password } = new URL(value);
    if (username !== "" || password !== "") {
      throw new InvalidArgumentError(
        "--target: a URL with a user or password in it; expected one without, since jobgate takes only its token.",
      );
    }
    return { url: value.replace(/\/+$/, "") };
  }
  const address = parseBindAddress(value);
  if (address === undefined)
    throw new InvalidArgumentError("--target: expected host:port, unix:PATH or a URL.");
  return toAddress(address);
}

function toAddress(address: BindAddress): OperatorAddress {
  return address.kind === "unix" ? { socketPath: address.path } : { url: localUrl(address) };
}
