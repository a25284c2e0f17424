import { existsSync } from "node:fs";
import { installOnDebian } from "../full-setup.ts";

const PACKAGES = [
  "caddy",
  "docker-compose",
  "docker.io",
  "etcd-server",
  "mmdebstrap",
  "nginx",
  "patroni",
  "postgresql-15",
  "systemd-container",
];

/** Installs the packages of Debian that the deployments run on. */
export default function setup(): void {
  for (const name of PACKAGES) installOnDebian(name, existsSync(`/var/lib/dpkg/info/${name}.list`));
}
