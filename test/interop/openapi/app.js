// An Express app that describes itself by its comments. It prints its port.
import express from "express";
import swaggerJsdoc from "swagger-jsdoc";

const app = express();

/**
 * @openapi
 * /weather/{city}:
 *   get:
 *     summary: Weather of a city
 *     parameters:
 *       - { name: city, in: path, required: true, schema: { type: string } }
 *       - { name: units, in: query, schema: { $ref: "#/components/schemas/Units" } }
 *     responses:
 *       200: { description: The weather, content: { application/json: {} } }
 * components:
 *   schemas:
 *     Units: { type: string, enum: [celsius, kelvin], default: celsius }
 */
app.get("/weather/:city", ({ params, query }, response) => {
  response.json({ city: params.city, units: query.units ?? "celsius" });
});

/**
 * @openapi
 * /notes:
 *   post:
 *     summary: Stores a note
 *     requestBody:
 *       required: true
 *       content:
 *         application/json:
 *           schema:
 *             type: object
 *             required: [text]
 *             properties: { text: { type: string, nullable: true } }
 *           example: { text: a note }
 *     responses:
 *       201: { description: It is stored }
 */
app.post("/notes", express.json(), ({ body }, response) => {
  response.status(201).json(body);
});

const definition = { openapi: "3.0.0", info: { title: "Weather and notes", version: "1" } };
const description = swaggerJsdoc({ definition, apis: [import.meta.filename], failOnErrors: true });
app.get("/docs.json", (_, response) => void response.json(description));

const server = app.listen(0, "127.0.0.1", () => console.log(server.address().port));
