import { describeCrashMatrix } from "./crash-matrix.ts";

describeCrashMatrix("no rpc_url");
