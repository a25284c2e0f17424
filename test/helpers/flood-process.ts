import { resetStreams } from "./http2-frames.ts";

const [address = "", path = "", count = ""] = process.argv.slice(2);
// Four at once, so that more than one connection's streams wait to be served.
await Promise.all([1, 2, 3, 4].map(() => resetStreams(address, path, Number(count) / 4)));
console.log("done");
