// Command greeting answers HTTP requests with a greeting.
package main

import (
	"fmt"
	"log"
	"net/http"
)

const greeting = "Hello from Go"

func main() {
	http.HandleFunc("/", func(writer http.ResponseWriter, _ *http.Request) { fmt.Fprintln(writer, greeting) })
	log.Fatal(http.ListenAndServe(":8080", nil))
}
