import type { Page } from "playwright-core";

/** What is used of the browser's own types: these functions run there. */
interface PageElement {
  readonly tagName: string;
  readonly textContent: string;
  readonly parentElement: PageElement | null;
  readonly childNodes: Iterable<{ readonly nodeType: number; readonly textContent: string }>;
  readonly scrollWidth: number;
  readonly clientWidth: number;
  checkVisibility(): boolean;
  closest(selector: string): PageElement | null;
}
declare const document: {
  readonly documentElement: PageElement;
  querySelectorAll(selector: string): Iterable<PageElement>;
};
declare function getComputedStyle(element: PageElement): {
  readonly color: string;
  readonly backgroundColor: string;
};

/** WCAG 2.2 AA, of text. */
const MIN_CONTRAST = 4.5;

/** Texts that stand out less from what is behind them than WCAG's level AA asks for. */
export function faintTexts(page: Page): Promise<string[]> {
  return page.evaluate((minContrast) => {
    const channels = (color: string) => (color.match(/[\d.]+/g) ?? []).map(Number);
    const luminance = ([red = 0, green = 0, blue = 0]: number[]) => {
      const [r = 0, g = 0, b = 0] = [red, green, blue]
        .map((channel) => channel / 255)
        .map((share) => (share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const background = (element: PageElement | null): number[] => {
      if (element === null) return [255, 255, 255];
      const color = channels(getComputedStyle(element).backgroundColor);
      return (color[3] ?? 1) > 0 ? color : background(element.parentElement);
    };
    const faint: string[] = [];
    for (const element of document.querySelectorAll("body *")) {
      const text = [...element.childNodes]
        .map((node) => (node.nodeType === 3 ? node.textContent : ""))
        .join("");
      if (text.trim() === "" || !element.checkVisibility() || element.closest(".unseen, .skip, svg"))
        continue;
      const lights = [luminance(channels(getComputedStyle(element).color)), luminance(background(element))];
      const contrast = (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05);
      if (contrast < minContrast) faint.push(`${element.tagName} "${text.trim()}": ${contrast.toFixed(2)}`);
    }
    return faint;
  }, MIN_CONTRAST);
}

/** By how many pixels the page is wider than its window. */
export function overflow(page: Page): Promise<number> {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}

/** Roles that mean nothing to who cannot see them, unless they have a name. */
const NAMED_ROLES = new Set([
  ...["button", "link", "textbox", "radio", "checkbox", "image", "img", "table", "dialog", "heading"],
  ...["progressbar", "ProgressIndicator", "meter", "Meter", "DisclosureTriangle", "RootWebArea"],
]);

/** What has such a role and no name in Chromium's own accessibility tree; and how many were looked at. */
export async function namelessRoles(page: Page): Promise<{ looked: number; nameless: string[] }> {
  const session = await page.context().newCDPSession(page);
  const { nodes } = await session.send("Accessibility.getFullAXTree");
  await session.detach();
  const named = nodes.filter(({ ignored, role }) => !ignored && NAMED_ROLES.has(String(role?.value)));
  return {
    looked: named.length,
    nameless: named.filter(({ name }) => !name?.value).map(({ role }) => String(role?.value)),
  };
}
