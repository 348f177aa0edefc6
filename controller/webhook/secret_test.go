package webhook_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"github.com/bellerophon-io/bellerophon/internal/canary"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestNeitherTheLogNorReadinessQuotesTheKeyOfASecretThatTheAPIServerRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientGo, _ := canary.CaptureLogs(t)
		r := newRig(t, sourcestest.Options{}, webhook.Certificates{})
		keys, quoted := canary.New(), 0
		r.api.instead = func(request *http.Request) *http.Response {
			if request.Method != http.MethodPost || !strings.HasSuffix(request.URL.Path, "/secrets") {
				return nil
			}
			key, err := keyIn(request)
			must(t, errors.Join(err, keys.AddKey(key)))
			status := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Secret").GroupKind(), "x",
				field.ErrorList{field.Invalid(field.NewPath("data").Key("tls.key"), string(key), "is quoted")}).Status()
			status.APIVersion, status.Kind = "v1", "Status"
			text, err := json.Marshal(status)
			must(t, err)
			quoted++
			return &http.Response{
				StatusCode: http.StatusUnprocessableEntity, Request: request, Body: io.NopCloser(strings.NewReader(string(text))),
				Header: http.Header{"Content-Type": {"application/json"}, "Warning": {`299 - "` + base64.StdEncoding.EncodeToString(key) + `"`}},
			}
		}
		replica := r.launch()
		r.pass(time.Minute)
		shown := fmt.Sprint(r.log.String(), clientGo.String(), replica.Ready())
		for _, want := range []string{"webhook server is not up to date", "422", "data[tls.key]"} {
			if !strings.Contains(shown, want) {
				t.Errorf("what the server shows has no %q:\n%s", want, shown)
			}
		}
		if found := keys.In(shown); found != "" || quoted == 0 {
			t.Errorf("after %d refusals, the server shows a key %s", quoted, found)
		}
		r.end()
	})
}

// keyIn returns the private key in the Secret that a request writes.
func keyIn(request *http.Request) ([]byte, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	return decoded.(*corev1.Secret).Data[corev1.TLSPrivateKeyKey], nil
}
