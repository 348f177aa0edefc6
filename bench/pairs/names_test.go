package main

import (
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/command/commandtest"
	"github.com/bellerophon-io/bellerophon/internal/golden"
)

func TestTheFlagsAreThoseOfTheDocuments(t *testing.T) {
	golden.Names(t, "../../docs/names/flags-pairs.txt", commandtest.Names(newPairs()))
}
