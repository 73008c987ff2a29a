// TechEmpower's tests on Go's own net/http.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"whyslow/targets/common/techempower"
)

func main() {
	techempower.Main(serve)
}

func serve(address string, db *techempower.Database) error {
	http.HandleFunc("/plaintext", func(w http.ResponseWriter, _ *http.Request) {
		send(w, "text/plain", []byte("Hello, World!"))
	})
	http.HandleFunc("/json", func(w http.ResponseWriter, _ *http.Request) {
		sendJSON(w, techempower.Greeting{Message: "Hello, World!"}, nil)
	})
	http.HandleFunc("/db", func(w http.ResponseWriter, r *http.Request) {
		one, err := db.World(context.Background())
		sendJSON(w, one, err)
	})
	http.HandleFunc("/queries", func(w http.ResponseWriter, r *http.Request) {
		found, err := db.Worlds(context.Background(), techempower.Count(r.URL.Query().Get("queries")))
		sendJSON(w, found, err)
	})
	http.HandleFunc("/updates", func(w http.ResponseWriter, r *http.Request) {
		found, err := db.Update(context.Background(), techempower.Count(r.URL.Query().Get("queries")))
		sendJSON(w, found, err)
	})
	http.HandleFunc("/cached-queries", func(w http.ResponseWriter, r *http.Request) {
		sendJSON(w, db.Cached(techempower.Count(r.URL.Query().Get("count"))), nil)
	})
	http.HandleFunc("/fortunes", func(w http.ResponseWriter, r *http.Request) {
		found, err := db.Fortunes(context.Background())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		send(w, "text/html; charset=utf-8", techempower.Page(found))
	})
	return http.ListenAndServe(address, nil)
}

func send(w http.ResponseWriter, contentType string, body []byte) {
	w.Header().Set("Server", "whyslow")
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	// An error is a client that went away; there is nothing to be done about it.
	_, _ = w.Write(body)
}

func sendJSON(w http.ResponseWriter, value any, err error) {
	if err == nil {
		var body []byte
		if body, err = json.Marshal(value); err == nil {
			send(w, "application/json", body)
			return
		}
	}
	http.Error(w, err.Error(), http.StatusInternalServerError)
}
