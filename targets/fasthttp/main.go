// fasthttp as its documentation shows it.
package main

import (
	"flag"
	"fmt"
	"log"
	"runtime"
	"strings"

	"github.com/valyala/fasthttp"
)

type answer struct {
	contentType string
	body        []byte
}

func main() {
	host := flag.String("host", "127.0.0.1", "address to listen on")
	port := flag.Int("port", 8080, "port to listen on")
	workers := flag.Int("workers", 1, "threads that run Go code at once")
	flag.Parse()
	runtime.GOMAXPROCS(*workers)

	server := fasthttp.Server{Name: "whyslow", Handler: handler()}
	log.Fatal(server.ListenAndServe(fmt.Sprintf("%s:%d", *host, *port)))
}

func handler() fasthttp.RequestHandler {
	line := "A slow answer may have been made in no time and waited in line.\n"
	answers := map[string]answer{
		"/plaintext": {"text/plain", []byte("Hello, World!")},
		"/welcome":   {"application/json", []byte("Welcome!")},
		"/":          {"text/plain", []byte(strings.Repeat(line, 32))}, // 2 KiB
	}
	return func(ctx *fasthttp.RequestCtx) {
		a, found := answers[string(ctx.Path())]
		if !found {
			ctx.Error("Not Found", fasthttp.StatusNotFound)
			return
		}
		ctx.SetContentType(a.contentType)
		ctx.SetBody(a.body)
	}
}
