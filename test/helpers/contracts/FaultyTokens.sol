// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.0;

/// An EIP-3009 token that keeps its books in the simplest way. Its heirs each break one promise of the standard.
abstract contract AuthorizedToken {
    string public constant name = "Faulty";
    string public constant symbol = "FLT";
    string public constant version = "1";
    uint8 public constant decimals = 6;

    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(bytes32 => bool)) public authorizationState;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
    event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce);

    function mint(address to, uint256 amount) external returns (bool) {
        balanceOf[to] += amount;
        emit Transfer(address(0), to, amount);
        return true;
    }

    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256(bytes(name)),
                keccak256(bytes(version)),
                block.chainid,
                address(this)
            )
        );
    }

    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes memory signature
    ) public {
        require(block.timestamp > validAfter && block.timestamp < validBefore, "outside the time window");
        bytes32 message = keccak256(
            abi.encode(
                keccak256(
                    "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
                ),
                from, to, value, validAfter, validBefore, nonce
            )
        );
        _requireSigned(from, message, signature);
        _execute(from, to, value, nonce);
    }

    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        transferWithAuthorization(from, to, value, validAfter, validBefore, nonce, abi.encodePacked(r, s, v));
    }

    function cancelAuthorization(address authorizer, bytes32 nonce, uint8 v, bytes32 r, bytes32 s) external {
        bytes32 message = keccak256(
            abi.encode(keccak256("CancelAuthorization(address authorizer,bytes32 nonce)"), authorizer, nonce)
        );
        _requireSigned(authorizer, message, abi.encodePacked(r, s, v));
        authorizationState[authorizer][nonce] = true;
        emit AuthorizationCanceled(authorizer, nonce);
    }

    /// Effect of an authorization with a valid signature and time window.
    function _execute(address from, address to, uint256 value, bytes32 nonce) internal virtual;

    function _move(address from, address to, uint256 value) internal {
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }

    function _requireSigned(address signer, bytes32 message, bytes memory signature) private view {
        require(signature.length == 65, "not a 65 byte signature");
        bytes32 r;
        bytes32 s;
        uint8 v;
        assembly {
            r := mload(add(signature, 0x20))
            s := mload(add(signature, 0x40))
            v := byte(0, mload(add(signature, 0x60)))
        }
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", DOMAIN_SEPARATOR(), message));
        require(signer != address(0) && ecrecover(digest, v, r, s) == signer, "not signed by its authorizer");
    }
}

/// Does nothing, successfully, where the standard wants a used nonce to revert.
contract SilentOnUsedNonce is AuthorizedToken {
    function _execute(address from, address to, uint256 value, bytes32 nonce) internal override {
        if (authorizationState[from][nonce]) return;
        authorizationState[from][nonce] = true;
        emit AuthorizationUsed(from, nonce);
        _move(from, to, value);
    }
}

/// Uses the authorization up and says so, and moves nothing.
contract MovesNothing is AuthorizedToken {
    function _execute(address from, address, uint256, bytes32 nonce) internal override {
        require(!authorizationState[from][nonce], "authorization is used or canceled");
        authorizationState[from][nonce] = true;
        emit AuthorizationUsed(from, nonce);
    }
}

/// Keeps a tenth of each transfer: the receiver gets less than was signed.
contract TakesFee is AuthorizedToken {
    function _execute(address from, address to, uint256 value, bytes32 nonce) internal override {
        require(!authorizationState[from][nonce], "authorization is used or canceled");
        authorizationState[from][nonce] = true;
        emit AuthorizationUsed(from, nonce);
        _move(from, address(this), value / 10);
        _move(from, to, value - value / 10);
    }
}
