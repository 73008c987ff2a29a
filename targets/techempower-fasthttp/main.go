// TechEmpower's tests on fasthttp.
package main

import (
	"context"
	"encoding/json"

	"github.com/valyala/fasthttp"
	"whyslow/targets/common/techempower"
)

func main() {
	techempower.Main(serve)
}

func serve(address string, db *techempower.Database) error {
	answer := func(ctx *fasthttp.RequestCtx) { answer(ctx, db) }
	server := fasthttp.Server{Name: "whyslow", Handler: answer}
	return server.ListenAndServe(address)
}

func answer(ctx *fasthttp.RequestCtx, db *techempower.Database) {
	switch string(ctx.Path()) {
	case "/plaintext":
		ctx.SetContentType("text/plain")
		ctx.SetBodyString("Hello, World!")
	case "/json":
		sendJSON(ctx, techempower.Greeting{Message: "Hello, World!"}, nil)
	case "/db":
		one, err := db.World(context.Background())
		sendJSON(ctx, one, err)
	case "/queries":
		found, err := db.Worlds(context.Background(), rows(ctx, "queries"))
		sendJSON(ctx, found, err)
	case "/updates":
		found, err := db.Update(context.Background(), rows(ctx, "queries"))
		sendJSON(ctx, found, err)
	case "/cached-queries":
		sendJSON(ctx, db.Cached(rows(ctx, "count")), nil)
	case "/fortunes":
		found, err := db.Fortunes(context.Background())
		if err != nil {
			ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
			return
		}
		ctx.SetContentType("text/html; charset=utf-8")
		ctx.SetBody(techempower.Page(found))
	default:
		ctx.Error("Not Found", fasthttp.StatusNotFound)
	}
}

func rows(ctx *fasthttp.RequestCtx, name string) int {
	return techempower.Count(string(ctx.QueryArgs().Peek(name)))
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
