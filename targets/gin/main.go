// gin as its documentation shows it, without its logger.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"
	"runtime"

	"github.com/gin-gonic/gin"
)

func main() {
	host := flag.String("host", "127.0.0.1", "address to listen on")
	port := flag.Int("port", 8080, "port to listen on")
	workers := flag.Int("workers", 1, "threads that run Go code at once")
	flag.Parse()
	runtime.GOMAXPROCS(*workers)

	gin.SetMode(gin.ReleaseMode)
	routes := gin.New()
	body := []byte("Hello, World!")
	plaintext := func(c *gin.Context) {
		c.Header("Server", "whyslow")
		c.Data(http.StatusOK, "text/plain", body)
	}
	routes.GET("/plaintext", plaintext)
	routes.HEAD("/plaintext", plaintext)
	log.Fatal(routes.Run(fmt.Sprintf("%s:%d", *host, *port)))
}
