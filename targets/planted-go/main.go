// Go's net/http with one known cause of slowness, so that an explanation can be
// checked against the truth. On SIGTERM it says on stderr what it served.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
)

// A node is what a cache or a parsed document is made of: small, and full of pointers.
type node struct {
	next  *node
	bytes [48]byte
}

// Half a million nodes of 56 bytes (64 as the allocator rounds): 32 MiB to be marked.
const liveNodes = 1 << 19

var (
	live     *node
	requests atomic.Int64
)

func main() {
	host := flag.String("host", "127.0.0.1", "address to listen on")
	port := flag.Int("port", 8080, "port to listen on")
	plant := flag.String("plant", "none", "none, alloc, heap, gc or procs")
	amount := flag.Int("amount", 0, "nodes (alloc), GOGC (gc) or GOMAXPROCS (procs); 0 is the default")
	flag.Parse()
	work, err := prepare(*plant, *amount)
	if err != nil {
		log.Fatal(err)
	}
	go reportAtEnd(*plant)
	http.HandleFunc("/plaintext", func(w http.ResponseWriter, _ *http.Request) {
		work()
		requests.Add(1)
		w.Header().Set("Server", "whyslow")
		w.Header().Set("Content-Type", "text/plain")
		// An error is a client that went away; there is nothing to be done about it.
		_, _ = w.Write([]byte("Hello, World!"))
	})
	log.Fatal(http.ListenAndServe(fmt.Sprintf("%s:%d", *host, *port), nil))
}

// prepare changes the runtime as the plant says, and returns its work per request.
func prepare(plant string, amount int) (func(), error) {
	nothing := func() {}
	switch plant {
	case "none":
		return nothing, nil
	case "alloc":
		nodes := orDefault(amount, 200)
		return func() { runtime.KeepAlive(chain(nodes)) }, nil
	case "heap": // the baseline of gc
		live = chain(liveNodes)
		return nothing, nil
	case "gc":
		live = chain(liveNodes)
		debug.SetGCPercent(orDefault(amount, 5))
		return nothing, nil
	case "procs":
		runtime.GOMAXPROCS(orDefault(amount, 1))
		return nothing, nil
	}
	return nil, fmt.Errorf("no plant %q", plant)
}

func orDefault(amount, usual int) int {
	if amount == 0 {
		return usual
	}
	return amount
}

func chain(length int) *node {
	var first *node
	for i := 0; i < length; i++ {
		first = &node{next: first}
	}
	return first
}

func reportAtEnd(plant string) {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	<-term
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	fmt.Fprintf(os.Stderr, "planted-go: plant=%s requests=%d allocated_bytes=%d collections=%d gc_cpu_share=%.4f\n",
		plant, requests.Load(), memory.TotalAlloc, memory.NumGC, memory.GCCPUFraction)
	os.Exit(0)
}
