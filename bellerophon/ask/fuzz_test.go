package ask

import (
	"errors"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
)

// The answer comes from the server at an address that a person has given.
func FuzzAnyAnswerIsDecodedOrNonsense(f *testing.F) {
	f.Add(`{"controllers":[{"name":"a","attempts":[{"id":"b"}]}]}`)
	f.Add(`{"time":7}`)
	f.Add("{}\n\n{}\n<html>")
	f.Fuzz(func(t *testing.T, text string) {
		check[history.Answer](t, text)
		check[introspection.State](t, text)
		check[introspection.Node](t, text)
	})
}

func check[T any](t *testing.T, text string) {
	t.Helper()
	answers := 0
	err := decode(&body{Reader: strings.NewReader(text), came: func() {}}, func(T) error { answers++; return nil })
	if err == nil && answers == 0 || err != nil && !errors.Is(err, errAnswer) {
		t.Errorf("%q has %d answers and the error %v", text, answers, err)
	}
}
