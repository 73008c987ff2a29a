// fiber as its documentation shows it.
package main

import (
	"flag"
	"fmt"
	"log"
	"runtime"

	"github.com/gofiber/fiber/v3"
)

func main() {
	host := flag.String("host", "127.0.0.1", "address to listen on")
	port := flag.Int("port", 8080, "port to listen on")
	workers := flag.Int("workers", 1, "threads that run Go code at once")
	flag.Parse()
	runtime.GOMAXPROCS(*workers)

	app := fiber.New(fiber.Config{ServerHeader: "whyslow"})
	app.Get("/plaintext", func(c fiber.Ctx) error {
		c.Set(fiber.HeaderContentType, "text/plain")
		return c.SendString("Hello, World!")
	})
	address := fmt.Sprintf("%s:%d", *host, *port)
	log.Fatal(app.Listen(address, fiber.ListenConfig{DisableStartupMessage: true}))
}
