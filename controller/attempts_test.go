package controller

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// A worker may take a request just before its controller is removed.
func TestAnAttemptThatComesAfterTheRemovalDoesNotBegin(t *testing.T) {
	made := newAttempts(func() {})
	begun := 0
	reconcile := made.counting(func(context.Context, operators.Request) (time.Duration, error) {
		begun++
		return 0, nil
	})
	if _, err := reconcile(t.Context(), operators.Request{}); err != nil {
		t.Error(err)
	}
	idle := made.close()
	_, err := reconcile(t.Context(), operators.Request{})
	if !errors.Is(err, errRemoved) || begun != 1 {
		t.Errorf("%d attempts have begun, and the last ended with %v", begun, err)
	}
	select {
	case <-idle:
		t.Error("it is idle before the result of its last attempt is told")
	default:
	}
	made.told()
	<-idle
}

func TestAnAttemptThatDidNotBeginIsNotTold(t *testing.T) {
	registry := prometheus.NewRegistry()
	manager, err := NewManager(&rest.Config{}, scheme.Scheme, Options{
		Registry: registry, Logger: slog.New(slog.DiscardHandler),
		OnResult: func(result operators.Result) { t.Errorf("told %+v", result) },
	})
	if err != nil {
		t.Fatal(err)
	}
	manager.onResults([]operators.Result{{
		Request: operators.Request{Controller: "removed"}, Outcome: operators.Ended, Err: operators.Terminal(errRemoved),
	}})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if name := family.GetName(); name == "controller_runtime_reconcile_total" {
			t.Errorf("it is in %s", name)
		}
	}
}
