import { describeCrashMatrix } from "./crash-matrix.ts";

describeCrashMatrix("rpc_url");
