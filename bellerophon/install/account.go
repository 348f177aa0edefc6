package install

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/oauth2"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// tokenSeconds is the validity of a token of the ServiceAccount. A token is renewed before it
// expires.
const tokenSeconds = 3600

// Config returns a client configuration for the operator's ServiceAccount. The user of config must
// be allowed to request tokens of the ServiceAccount. They are requested until ctx ends.
func (i *Installation) Config(ctx context.Context, config *rest.Config) (*rest.Config, error) {
	client, err := corev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	tokens := transport.NewCachedTokenSource(&tokens{ctx: ctx, accounts: client.ServiceAccounts(Namespace), name: i.account})
	if _, err := tokens.Token(); err != nil {
		return nil, err
	}
	account := rest.AnonymousClientConfig(config)
	account.Wrap(transport.TokenSourceWrapTransport(tokens))
	return account, nil
}

// tokens requests tokens of a ServiceAccount.
type tokens struct {
	ctx      context.Context // Token has no parameter for it.
	accounts corev1.ServiceAccountInterface
	name     string
}

// Token implements oauth2.TokenSource.
func (t *tokens) Token() (*oauth2.Token, error) {
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := t.accounts.CreateToken(t.ctx, t.name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("requesting a token of ServiceAccount %s/%s: %w", Namespace, t.name, err)
	}
	// Renew the token five minutes early, so that it stays valid if the clocks differ.
	early := answer.Status.ExpirationTimestamp.Add(-5 * time.Minute)
	return &oauth2.Token{AccessToken: answer.Status.Token, Expiry: early}, nil
}
