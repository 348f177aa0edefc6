package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/pipeline"
	"github.com/bellerophon-io/bellerophon/operators"
)

// A worker may take a request just before its controller is removed.
func TestAnAttemptThatComesAfterTheRemovalDoesNotBegin(t *testing.T) {
	made := newAttempts()
	begun := 0
	reconcile := made.tracked(func(context.Context, operators.Request) (time.Duration, error) {
		begun++
		return 0, nil
	})
	if _, err := reconcile(t.Context(), operators.Request{}); err != nil {
		t.Error(err)
	}
	idle := made.close()
	_, err := reconcile(t.Context(), operators.Request{})
	if !errors.Is(err, pipeline.ErrRemoved) || begun != 1 {
		t.Errorf("%d attempts have begun, and the last ended with %v", begun, err)
	}
	select {
	case <-idle:
		t.Error("the attempts are idle before the result of the last one was handled")
	default:
	}
	made.handled(false, 2)
	<-idle
}
