package controller

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAManagerServesItsPageAndWhatHappens(t *testing.T) {
	for name, options := range map[string]Options{"with a history": {}, "without one": {History: -1}} {
		t.Run(name, func(t *testing.T) {
			w := newWhyWorld(t, options)
			code, body := w.get("/page/")
			text, err := io.ReadAll(body)
			if err != nil || code != 200 || !strings.Contains(string(text), "<html") {
				t.Errorf("the page is %d %s, %v", code, text, err)
			}
			code, events := w.get("/page/events")
			if code != 200 {
				t.Fatalf("the stream is %d", code)
			}
			read := bufio.NewScanner(events)
			read.Buffer(nil, 1<<20)
			shown := ""
			until := func(want string) {
				t.Helper()
				for !strings.Contains(shown, want) {
					if !read.Scan() {
						t.Fatalf("the stream ended without %s: %v\n%s", want, read.Err(), shown)
					}
					shown += read.Text() + "\n"
				}
			}
			until(`"level"`) // The first state.
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "pegasus"}, Data: map[string][]byte{"token": []byte(canary)}}
			if err := w.server.Create(secret); err != nil {
				t.Fatal(err)
			}
			until(`"change":"updated","kind":"Secret","ns":"a","name":"pegasus"`) // The echo of what the attempt wrote.
			until(`"verb":"patch","kind":"Secret","ns":"a","name":"pegasus"`)
			if strings.Contains(shown, canary) {
				t.Errorf("it shows a value:\n%s", shown)
			}
		})
	}
}

func TestTheStreamOfThePageEndsWithTheManager(t *testing.T) {
	w := newWhyWorld(t, Options{})
	_, events := w.get("/page/events")
	if _, err := bufio.NewReader(events).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	w.stop()
	if _, err := io.Copy(io.Discard, events); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > shutdownGrace {
		t.Errorf("it ends after %v", took)
	}
}
