package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller/webhook"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/client-go/rest"
)

// Any client that reaches the port can send a body. None may make a function panic outside of its guard, or get an answer that an
// API server takes for the answer to another request.
func FuzzAnyBodyOfAWebhookGetsAnAnswerOfItsOwn(f *testing.F) {
	server, err := webhook.New(&rest.Config{Host: "http://127.0.0.1:1"}, types(), webhook.Options{Service: "heroes/webhooks", Logger: slog.New(slog.DiscardHandler)})
	must(f, err)
	must(f, webhook.Validate(server, func(_ context.Context, request webhook.Request[*Hero]) error {
		if request.New != nil && request.New.Spec.Horse == "denied" {
			return errors.New("no")
		}
		return nil
	}))
	must(f, webhook.Default(server, func(_ context.Context, hero *Hero) error {
		hero.Spec.Horse += "!"
		return nil
	}))
	must(f, webhook.Convert(server, func(_ context.Context, _ *Hero, _ *HeroV2) error { return nil }, toV1))
	handler := server.Handler()
	paths := []string{validatePath, defaultPath, "/convert"}
	for i := range paths {
		f.Add(i, review(admissionv1.Create, heroJSON("", `"horse":"arion"`), ""))
		f.Add(i, review(admissionv1.Delete, "", heroJSON(`,"annotations":{"a":"b"}`, "")))
		f.Add(i, review(admissionv1.Update, `[1e999]`, `{"metadata":7}`))
		f.Add(i, fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"7","desiredAPIVersion":"%s/v2","objects":[%s]}}`, heroes, heroJSON("", "")))
	}
	f.Fuzz(func(t *testing.T, path int, body string) {
		recorder := post(handler, paths[uint(path)%uint(len(paths))], body)
		switch recorder.Code {
		case http.StatusOK:
			var asked struct{ Request struct{ UID string } }
			var answer struct{ Response struct{ UID string } }
			if json.Unmarshal([]byte(body), &asked) != nil || json.Unmarshal(recorder.Body.Bytes(), &answer) != nil || answer.Response.UID == "" || answer.Response.UID != asked.Request.UID {
				t.Errorf("the request %q has the answer %q to %q", body, answer.Response.UID, asked.Request.UID)
			}
		case http.StatusBadRequest, http.StatusInternalServerError:
			if recorder.Code == http.StatusInternalServerError && recorder.Body.String() == "the function of the webhook panicked; its log has the details\n" {
				t.Errorf("%q makes a function panic", body)
			}
		default:
			t.Errorf("%q has the code %d", body, recorder.Code)
		}
	})
}
