import { testMistakes, x402 } from "../mistake-cases.ts";

testMistakes([
  {
    promise: "A bind address without a port is a mistake",
    toml: '[operator]\nbind_address = "127.0.0.1" #!',
    keyPath: "operator.bind_address",
    message: /"host:port", "\[ipv6\]:port" or "unix:PATH"/,
  },
  {
    promise: "A gateway cannot bind a unix socket",
    ...x402("bind_address", '"unix:/tmp/x"'),
    message: /expected "host:port"/,
  },
  {
    promise: "A runner listener that others can reach needs a token",
    toml: '[runner] #!\nbind_address = "0.0.0.0:8403"',
    keyPath: "runner.token",
    message: /expected a token, or runner.tls.client_ca/,
  },
  {
    promise: "An operator listener that others can reach needs a token",
    toml: '[operator] #!\nbind_address = "0.0.0.0:8405"',
    keyPath: "operator.token",
    message: /expected a token/,
  },
  {
    promise: "An empty token is a mistake",
    toml: '[operator]\ntoken = "" #!',
    keyPath: "operator.token",
    message: /an empty string/,
  },
  {
    promise: "A token with a line break is a mistake",
    toml: '[operator]\ntoken = "a\\n" #!',
    keyPath: "operator.token",
    message: /visible ASCII/,
  },
  {
    promise: "gRPC and HTTP/1.1 cannot share an address",
    toml: '[operator]\nbind_address = "127.0.0.1:8403" #!',
    keyPath: "operator.bind_address",
    message: /that of runner too/,
  },
  {
    promise: "A missing TLS file is a mistake",
    toml: '[runner.tls]\ncert = "$DIR/jobgate.toml"\nkey = "$DIR/nothing" #!',
    keyPath: "runner.tls.key",
    message: /no such file/,
  },
  {
    promise: "TLS files without a certificate and key are a mistake",
    toml: '[runner.tls] #!\ncert = "$DIR/jobgate.toml"\nkey = "$DIR/jobgate.toml"',
    keyPath: "runner.tls",
    message: /do not work together/,
  },
  {
    promise: "A client CA without a certificate is a mistake",
    toml: '[runner.tls]\ncert = "$DIR/a"\nkey = "$DIR/b"\nclient_ca = "$DIR/jobgate.toml" #!',
    keyPath: "runner.tls.client_ca",
    message: /holds no certificate/,
  },
]);
