// Go's own net/http, as its documentation shows it.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"
	"runtime"
	"strings"
)

func main() {
	host := flag.String("host", "127.0.0.1", "address to listen on")
	port := flag.Int("port", 8080, "port to listen on")
	workers := flag.Int("workers", 1, "threads that run Go code at once")
	flag.Parse()
	runtime.GOMAXPROCS(*workers)

	http.HandleFunc("/plaintext", fixed("text/plain", "Hello, World!"))
	http.HandleFunc("/welcome", fixed("application/json", "Welcome!"))
	line := "A slow answer may have been made in no time and waited in line.\n"
	http.HandleFunc("/{$}", fixed("text/plain", strings.Repeat(line, 32))) // 2 KiB
	log.Fatal(http.ListenAndServe(fmt.Sprintf("%s:%d", *host, *port), nil))
}

func fixed(contentType, body string) http.HandlerFunc {
	bytes := []byte(body)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Server", "whyslow")
		w.Header().Set("Content-Type", contentType)
		// An error is a client that went away; there is nothing to be done about it.
		_, _ = w.Write(bytes)
	}
}
