// An HTTP API that knows nothing of payments.
import express from "express";
import multer from "multer";

const CITIES = { Paris: 21, Oslo: 12 };
/** 5 MB that a reader of PDF opens as an empty document. */
const PDF = Buffer.concat([
  Buffer.from(
    "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n",
  ),
  Buffer.alloc(5_000_000, "% padding\n"),
  Buffer.from("\ntrailer<</Root 1 0 R>>\n%%EOF\n"),
]);
const notes = new Map();

const app = express();
app.use(express.json());

app.get("/health", (_request, response) => void response.json({ ok: true }));

app.get("/weather/:city", ({ params, query }, response) => {
  const celsius = CITIES[params.city];
  if (celsius === undefined) return void response.status(404).json({ detail: "no such city" });
  const temperature = query.units === "kelvin" ? celsius + 273 : celsius;
  // Express adds an ETag, and answers 304 to it.
  response.json({ city: params.city, temperature });
});

app.post("/summaries", ({ body }, response) => {
  if (typeof body?.text !== "string") return void response.status(422).json({ detail: "text is missing" });
  response.json({ summary: body.text.slice(0, 10) });
});

app.post(
  "/uploads",
  multer({ storage: multer.memoryStorage() }).single("file"),
  ({ file, body }, response) => {
    response.json({ name: file.originalname, bytes: file.size, title: body.title });
  },
);

app.post("/notes", ({ body }, response) => {
  const id = notes.size + 1;
  notes.set(id, body.text);
  response.status(201).location(`/notes/${id}`).json({ id });
});

app.put("/notes/:id", ({ params, body }, response) => {
  notes.set(Number(params.id), body.text);
  response.status(204).end();
});

app.get("/reports/annual.pdf", (_request, response) => void response.type("pdf").send(PDF));

app.get("/reports", (_request, response) => response.redirect(307, "/reports/"));

app.get("/faults/error", (_request, response) => void response.status(500).json({ detail: "it failed" }));
app.get("/faults/hang", () => {});
app.get("/faults/death", (_request, response) => {
  response.setHeader("content-length", 1_000);
  response.write("a part", () => response.destroy());
});

const { PORT = "8000" } = process.env;
app.listen(Number(PORT), "127.0.0.1", () => console.log(`listening on ${PORT}`));
