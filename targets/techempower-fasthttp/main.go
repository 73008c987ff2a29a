// TechEmpower's tests on fasthttp.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"runtime"

	"github.com/valyala/fasthttp"
)

// Connections to the database for each thread that runs Go code.
const connections = 16

type greeting struct {
	Message string `json:"message"`
}

func main() {
	host := flag.String("host", "127.0.0.1", "address to listen on")
	port := flag.Int("port", 8080, "port to listen on")
	workers := flag.Int("workers", 1, "threads that run Go code at once")
	url := flag.String("database", "", "where the database is")
	flag.Parse()
	runtime.GOMAXPROCS(*workers)

	db, err := open(*url, int32(*workers*connections))
	if err != nil {
		log.Fatal(err)
	}
	server := fasthttp.Server{Name: "whyslow", Handler: db.answer}
	log.Fatal(server.ListenAndServe(fmt.Sprintf("%s:%d", *host, *port)))
}

func (d *database) answer(ctx *fasthttp.RequestCtx) {
	switch string(ctx.Path()) {
	case "/plaintext":
		ctx.SetContentType("text/plain")
		ctx.SetBodyString("Hello, World!")
	case "/json":
		sendJSON(ctx, greeting{"Hello, World!"}, nil)
	case "/db":
		one, err := d.world(context.Background())
		sendJSON(ctx, one, err)
	case "/queries":
		found, err := d.worlds(context.Background(), rows(ctx, "queries"))
		sendJSON(ctx, found, err)
	case "/updates":
		found, err := d.update(context.Background(), rows(ctx, "queries"))
		sendJSON(ctx, found, err)
	case "/cached-queries":
		sendJSON(ctx, d.cached(rows(ctx, "count")), nil)
	case "/fortunes":
		found, err := d.fortunes(context.Background())
		if err != nil {
			ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
			return
		}
		ctx.SetContentType("text/html; charset=utf-8")
		ctx.SetBody(page(found))
	default:
		ctx.Error("Not Found", fasthttp.StatusNotFound)
	}
}

func rows(ctx *fasthttp.RequestCtx, name string) int {
	return count(string(ctx.QueryArgs().Peek(name)))
}

func sendJSON(ctx *fasthttp.RequestCtx, value any, err error) {
	if err == nil {
		var body []byte
		if body, err = json.Marshal(value); err == nil {
			ctx.SetContentType("application/json")
			ctx.SetBody(body)
			return
		}
	}
	ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
}
