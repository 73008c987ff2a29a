package techempower

import (
	"flag"
	"fmt"
	"log"
	"runtime"
)

// Connections to the database for each thread that runs Go code.
const connections = 16

// Greeting is the object of the test of JSON.
type Greeting struct {
	Message string `json:"message"`
}

// Main reads the flags, opens the database, and has serve listen at an address for as long as the process lives.
func Main(serve func(address string, db *Database) error) {
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
	log.Fatal(serve(fmt.Sprintf("%s:%d", *host, *port), db))
}
