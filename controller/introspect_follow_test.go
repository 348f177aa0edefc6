package controller

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/introspection"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAnIntrospectionThatFollowsAnswersWhenAnAttemptHasEnded(t *testing.T) {
	for name, options := range map[string]Options{"with a history": {}, "without one": {History: -1}} {
		t.Run(name, func(t *testing.T) {
			w := newWhyWorld(t, options)
			_, answers := w.get("/debug/manager?follow=true")
			decoder := json.NewDecoder(answers)
			next := func() (shown introspection.State) {
				t.Helper()
				if err := decoder.Decode(&shown); err != nil {
					t.Fatal(err)
				}
				return shown
			}
			first := next()
			if len(first.Stages) == 0 || first.Workers == 0 || first.Quiet <= 0 || first.Leader != nil || first.Controllers[0].Slowest == nil {
				t.Errorf("at first it shows %+v", first)
			}
			const objects = 50
			for i := range objects {
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("horse-%d", i)}, Data: map[string][]byte{"token": []byte(canary)}}
				if err := w.server.Create(secret); err != nil {
					t.Fatal(err)
				}
			}
			began, shown := time.Now(), 0
			for last := first; last.Controllers[0].Attempts < 2*objects; shown++ { // One that writes, and one for its echo.
				before := last
				if last = next(); last.Time.Sub(before.Time) < followPause-20*time.Millisecond {
					t.Errorf("two answers come within %v", last.Time.Sub(before.Time))
				}
				if of := last.Controllers[0]; of.Attempts >= 2*objects && (of.Writes != objects || of.Failed != 0 || !last.Started.Equal(first.Started)) {
					t.Errorf("%d writes and %d failed keys of a manager that was made at %v", of.Writes, of.Failed, last.Started)
				}
				if of := last.Controllers[0]; options.History == 0 && of.Attempts > 0 {
					if len(of.Slowest) == 0 || len(of.Slowest) > mostSlow || len(of.Slowest[0].ID) != 16 || of.Slowest[0].Seconds < of.Slowest[len(of.Slowest)-1].Seconds {
						t.Errorf("the slowest keys are %+v", of.Slowest)
					}
				}
			}
			if took := time.Since(began); took > followAlive {
				t.Errorf("it shows the attempts after %v in %d answers", took, shown)
			}
		})
	}
}
