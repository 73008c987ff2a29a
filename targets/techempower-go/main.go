// TechEmpower's tests on Go's own net/http.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"runtime"
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
	http.HandleFunc("/plaintext", func(w http.ResponseWriter, _ *http.Request) {
		send(w, "text/plain", []byte("Hello, World!"))
	})
	http.HandleFunc("/json", func(w http.ResponseWriter, _ *http.Request) {
		sendJSON(w, greeting{"Hello, World!"}, nil)
	})
	http.HandleFunc("/db", func(w http.ResponseWriter, r *http.Request) {
		one, err := db.world(context.Background())
		sendJSON(w, one, err)
	})
	http.HandleFunc("/queries", func(w http.ResponseWriter, r *http.Request) {
		found, err := db.worlds(context.Background(), count(r.URL.Query().Get("queries")))
		sendJSON(w, found, err)
	})
	http.HandleFunc("/updates", func(w http.ResponseWriter, r *http.Request) {
		found, err := db.update(context.Background(), count(r.URL.Query().Get("queries")))
		sendJSON(w, found, err)
	})
	http.HandleFunc("/cached-queries", func(w http.ResponseWriter, r *http.Request) {
		sendJSON(w, db.cached(count(r.URL.Query().Get("count"))), nil)
	})
	http.HandleFunc("/fortunes", func(w http.ResponseWriter, r *http.Request) {
		found, err := db.fortunes(context.Background())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		send(w, "text/html; charset=utf-8", page(found))
	})
	log.Fatal(http.ListenAndServe(fmt.Sprintf("%s:%d", *host, *port), nil))
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
